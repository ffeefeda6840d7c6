"""The outside judges of `planner verify --executor`: which there are, and what each one needs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import UserError
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from executors.judgement import Judgement
    from executors.placement import Array
    from ir.plan import Plan

REFERENCE = "reference"
PACKAGES = {"jax": "jax", "torch": "torch"}
"""Judges that run in this process, and the package that each needs."""
EXECUTORS = (REFERENCE, *PACKAGES, "mindspore")
EXECUTOR = Option(
    group=Group.QUESTION, choices=EXECUTORS, noun="executor",
    help="What runs the plan: the reference executor, or an outside judge. XLA and DTensor "
    "compute the numbers and make messages of their own; MindSpore compiles the plan and says "
    "which messages it would send.",
)  # fmt: skip
JUDGE_PYTHON = Option(
    group=Group.QUESTION, value="PATH", flags=("--mindspore-python",),
    variable="PLANNER_MINDSPORE_PYTHON",
    help="Interpreter of an environment with MindSpore 2.10.0, for the real MindSpore.",
)  # fmt: skip
"""Of the judge that has an environment of its own."""


def check_judge(name: str, python: Path | None) -> None:
    """Raise `UserError` for a judge that is not installed."""
    package = PACKAGES.get(name)
    if package is not None and find_spec(package) is None:
        raise UserError(
            f"{package} is not installed",
            f"--executor {name}",
            f"pip install 'parallel-planner[{name}]', or use --executor reference",
        )
    if name != "mindspore":
        return
    if python is None:
        raise UserError(
            "MindSpore has an environment of its own, and it is not named",
            "--mindspore-python",
            "name its interpreter: --mindspore-python .venv-mindspore/bin/python",
        )
    if not python.is_file():
        raise UserError(
            f"there is no {python}",
            f"--mindspore-python {python}",
            "pass the Python interpreter of an environment with MindSpore 2.10.0",
        )


def judgement(name: str, plan: Plan, values: Mapping[str, Array], python: Path | None) -> Judgement:
    """What a judge says of a plan on these numbers."""
    if name == "jax":
        from executors.jax import judge as by_jax  # noqa: PLC0415  seconds of imports

        return by_jax(plan, values)
    if name == "torch":
        from executors.torch import judge as by_torch  # noqa: PLC0415

        return by_torch(plan, values)
    from executors.mindspore.judge import judge as by_mindspore  # noqa: PLC0415

    if python is None:
        raise TypeError("MindSpore's interpreter is not given")
    return by_mindspore(plan, values, python=python)
