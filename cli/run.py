"""`planner run`: train a plan on devices of this machine and measure it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from cli.command_options import JSON, Output
from cli.declared import command
from cli.errors import UserError
from cli.files import check_folder, write_files, writer_of
from cli.judges import PACKAGES
from cli.progress import Progress
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from executors.measured import Measured
    from executors.placement import Array
    from ir.plan import Plan
    from planner.explain.next_plan import NextPlan

EPILOG = """\b
Examples:
  planner run plan/plan.json
  planner run plan/plan.json --steps 50 -o measured
  planner validate measured/measured.csv

\b
Processes of torch use GPUs with NCCL where there are enough, else one thread of the CPU each with
gloo. JAX has all devices in one process: accelerators where there are enough, else host devices.
`planner calibrate host` describes this machine, so that a plan for it can be compared.

\b
Exit status: 0 measured, 1 the loss is not that of one device, 2 a fault in the command or the plan,
or a process that died."""

BACKENDS = ("torch", "jax")
WRONG_LOSS = 1
MOST_STEPS = 10_000
TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand:
    """Of `planner run`."""

    # fmt: off
    backend: Annotated[str, Option(
        group=Group.MACHINE, choices=BACKENDS, noun="backend", help="What runs the plan.",
    )] = "torch"
    processes: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", least=1, usual="as the plan", help="Processes to start.",
    )] = None
    model: Annotated[Path | None, Option(
        group=Group.QUESTION, value="MODEL", usual="a published model of the plan's name",
        help="File or published model that was planned: it has the numbers that no training "
        "changes, such as masks, scales and positions. Without it they are random.",
    )] = None
    steps: Annotated[int, Option(
        group=Group.QUESTION, value="N", least=1, most=MOST_STEPS, help="Steps to measure.",
    )] = 20
    seed: Annotated[int, Option(
        group=Group.QUESTION, value="N", least=0, help="Other random numbers.",
    )] = 0
    output: Annotated[Path | None, Output(
        value="DIR",
        help="Folder for measured.json, measured.csv for `planner validate`, and next_plan.json "
        "where the measured rates lead to another plan.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def run(plan: options.PlanPath, here: RunCommand) -> None:
    """Train a plan on processes of this machine: how long does a step really take, and why?

    Weights and data are random. The loss of the first step is compared with that of one device.
    """
    output = here.output
    check_backend(here.backend)
    if output is not None:
        check_folder(output)
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    found = read_plan(plan, staged=True)
    _check(found, here)
    fixed, drawn = _fixed(found, here.model)
    lines = (*_differences(found, here.backend), *drawn)
    with Progress() as progress:
        progress(f"training {len(found.graph.ops)} operators on {found.devices} processes")
        measured = _measured(found, here, fixed)
        other = _next(found, measured, progress)
    written = _write(found, measured, output, other)
    if here.as_json:
        from executors.measured import to_json  # noqa: PLC0415

        print(to_json(found, measured), end="")
    else:
        from cli.run_text import run_parts  # noqa: PLC0415
        from cli.text import tell  # noqa: PLC0415  brings in rich

        tell(run_parts(found, measured, lines, written, other))
    if not measured.is_right:
        raise typer.Exit(WRONG_LOSS)


def check_backend(name: str) -> None:
    """Raise `UserError` for a backend that is not installed."""
    package = PACKAGES[name]
    if find_spec(package) is None:
        raise UserError(
            f"{package} is not installed",
            f"--backend {name}",
            f"pip install 'parallel-planner[{name}]'",
        )


def _check(plan: Plan, here: RunCommand) -> None:
    from executors import jax_refusals, torch_differences  # noqa: PLC0415

    processes = here.processes
    if processes is not None and processes != plan.devices:
        raise UserError(
            f"the plan is for {plan.devices} devices",
            f"--processes {processes}",
            f"leave it out, or search with --devices {processes}",
        )
    try:
        (torch_differences if here.backend == "torch" else jax_refusals).refuse(plan)
    except (torch_differences.ApplyError, jax_refusals.JaxPlanError) as error:
        raise UserError(str(error)) from error


def _differences(plan: Plan, backend: str) -> tuple[str, ...]:
    """What torch does otherwise than planned; JAX is told all layouts."""
    from executors.torch_differences import differences  # noqa: PLC0415

    return differences(plan) if backend == "torch" else ()


def _fixed(plan: Plan, model: Path | None) -> tuple[dict[str, Array], tuple[str, ...]]:
    from planner.requests.constants import fixed_numbers  # noqa: PLC0415

    return fixed_numbers(plan, model)


def _measured(plan: Plan, here: RunCommand, fixed: Mapping[str, Array]) -> Measured:
    from executors.dtensor.processes import ProcessError, run_measured  # noqa: PLC0415

    try:
        return run_measured(plan, here.steps, here.seed, TIMEOUT_S, fixed, here.backend)
    except ProcessError as error:
        raise UserError(process_message(str(error))) from error


def process_message(text: str) -> str:
    """One message of a process that died: which, how, what it said last, and how to mend it."""
    first, *rest = text.splitlines()
    said = next((line.strip() for line in reversed(rest) if line.strip()), "it wrote nothing")
    fix = "use a smaller batch or fewer processes" if "memory" in first else "see what it wrote"
    return f"{first}\n  at:  {said}\n  fix: {fix}; all other processes were ended"


def _next(plan: Plan, measured: Measured, progress: Progress) -> NextPlan | None:
    """The plan that the measured rates would have led to, if it is another."""
    if plan.devices < 2:
        return None
    from executors.measured import slowdowns  # noqa: PLC0415
    from planner.explain.next_plan import next_plan  # noqa: PLC0415  brings in solvers

    progress("searching again with the rates that were measured")
    return next_plan(plan, *slowdowns(plan, measured))


def _write(
    plan: Plan, measured: Measured, output: Path | None, other: NextPlan | None
) -> list[Path]:
    if output is None:
        return []
    from executors.measured import to_json, validation_row  # noqa: PLC0415

    texts = {
        "measured.json": to_json(plan, measured),
        "measured.csv": validation_row(plan, measured),
    }
    if other is not None:
        from ir.plan_file import plan_to_json  # noqa: PLC0415

        texts["next_plan.json"] = plan_to_json(other.plan)
    return write_files(output, {name: writer_of(text) for name, text in texts.items()})
