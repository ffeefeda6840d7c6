"""`planner run`: train a plan on processes of this machine and measure it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from cli.errors import UserError
from cli.files import check_folder, write_files, writer_of
from cli.judges import PACKAGES
from cli.progress import Progress
from planner.requests.option_texts import one_of

if TYPE_CHECKING:
    from executors.measured import Measured
    from ir.plan import Plan

EPILOG = """\b
Examples:
  planner run plan/plan.json
  planner run plan/plan.json --steps 50 -o measured
  planner validate measured/measured.csv

\b
Processes use GPUs with NCCL where there are enough, else one thread of the CPU each with gloo.
`planner calibrate host` describes this machine, so that a plan for it can be compared.

\b
Exit status: 0 measured, 1 the loss is not that of one device, 2 a fault in the command or the plan,
or a process that died."""

BACKENDS = ("torch",)
WRONG_LOSS = 1
MOST_STEPS = 10_000
TIMEOUT_S = 3600.0

Backend = Annotated[str, typer.Option("--backend", metavar="torch", help="What runs the plan.")]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes", metavar="N", min=1, help="Processes to start.", show_default="as the plan"
    ),
]
Steps = Annotated[
    int, typer.Option("--steps", metavar="N", min=1, max=MOST_STEPS, help="Steps to measure.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Other random numbers.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="DIR", show_default=False,
        help="Folder for measured.json, and measured.csv for `planner validate`.",
    ),
]  # fmt: skip


def run(
    plan: options.PlanPath,
    *,
    backend: Backend = "torch",
    processes: Processes = None,
    steps: Steps = 20,
    seed: Seed = 0,
    output: Output = None,
    as_json: options.Json = False,
) -> None:
    """Train a plan on processes of this machine: how long does a step really take, and why?

    Weights and data are random. The loss of the first step is compared with that of one device.
    """
    check_backend(backend)
    if output is not None:
        check_folder(output)
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    found = read_plan(plan, staged=True)
    _check(found, processes)
    from executors.torch_differences import differences  # noqa: PLC0415

    lines = differences(found)
    with Progress() as progress:
        progress(f"training {len(found.graph.ops)} operators on {found.devices} processes")
        measured = _measured(found, steps, seed)
    written = _write(found, measured, output)
    from cli.run_text import print_run  # noqa: PLC0415

    if as_json:
        from executors.measured import to_json  # noqa: PLC0415

        print(to_json(found, measured), end="")
    else:
        print_run(found, measured, lines, written)
    if not measured.is_right:
        raise typer.Exit(WRONG_LOSS)


def check_backend(name: str) -> None:
    """Raise `UserError` for a backend that is unknown or not installed."""
    one_of(name, BACKENDS, "--backend", "backend")
    package = PACKAGES[name]
    if find_spec(package) is None:
        raise UserError(
            f"{package} is not installed",
            f"--backend {name}",
            f"pip install 'parallel-planner[{name}]'",
        )


def _check(plan: Plan, processes: int | None) -> None:
    from executors.torch_differences import ApplyError, refuse  # noqa: PLC0415

    if processes is not None and processes != plan.devices:
        raise UserError(
            f"the plan is for {plan.devices} devices",
            f"--processes {processes}",
            f"leave it out, or search with --devices {processes}",
        )
    try:
        refuse(plan)
    except ApplyError as error:
        raise UserError(str(error)) from error


def _measured(plan: Plan, steps: int, seed: int) -> Measured:
    from executors.dtensor.processes import ProcessError, run_measured  # noqa: PLC0415

    try:
        return run_measured(plan, steps, seed, TIMEOUT_S)
    except ProcessError as error:
        raise UserError(process_message(str(error))) from error


def process_message(text: str) -> str:
    """One message of a process that died: which, how, what it said last, and how to mend it."""
    first, *rest = text.splitlines()
    said = next((line.strip() for line in reversed(rest) if line.strip()), "it wrote nothing")
    fix = "use a smaller batch or fewer processes" if "memory" in first else "see what it wrote"
    return f"{first}\n  at:  {said}\n  fix: {fix}; all other processes were ended"


def _write(plan: Plan, measured: Measured, output: Path | None) -> list[Path]:
    if output is None:
        return []
    from executors.measured import to_json, validation_row  # noqa: PLC0415

    texts = {
        "measured.json": to_json(plan, measured),
        "measured.csv": validation_row(plan, measured),
    }
    return write_files(output, {name: writer_of(text) for name, text in texts.items()})
