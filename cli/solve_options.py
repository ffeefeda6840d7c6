"""Options of `planner solve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Instance: TypeAlias = Annotated[
    Path, typer.Argument(metavar="INSTANCE", help="An instance, .json or .json.gz.")
]
SolveTimeLimit: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="S",
        help="Seconds after which the best answer so far is given, reading included.",
        show_default="60, or none with --effort",
    ),
]
SolveEffort: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--effort",
        metavar="N",
        help="How much is tried, in units of work and not of time: the same answer anywhere.",
        show_default="as much as the time allows",
    ),
]
Threads: TypeAlias = Annotated[
    int, typer.Option("--threads", metavar="N", help="Cores that may be used.")
]
SolutionFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Where the solution is written as JSON."),
]
Seed: TypeAlias = Annotated[
    int, typer.Option("--seed", metavar="N", help="Other random numbers for the search.")
]
