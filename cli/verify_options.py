"""Options of `planner verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Scale: TypeAlias = Annotated[
    str,
    typer.Option(
        "--scale",
        metavar="small|full",
        help="small runs the plan with extents and layers cut to the smallest that its splits "
        "allow, full as it is.",
    ),
]
Executor: TypeAlias = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="reference|jax|torch|mindspore",
        help="What runs the plan: the reference executor, or an outside judge. XLA and DTensor "
        "compute the numbers and make messages of their own; MindSpore compiles the plan and says "
        "which messages it would send.",
    ),
]
MindSporePython: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--mindspore-python",
        metavar="PATH",
        envvar="PLANNER_MINDSPORE_PYTHON",
        help="Interpreter of an environment with MindSpore 2.10.0, for --executor mindspore.",
    ),
]
VirtualDevices: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--devices",
        metavar="N",
        help="Virtual devices at hand; a plan needs all of its own.",
        show_default="those of the plan",
    ),
]
Seed: TypeAlias = Annotated[
    int, typer.Option("--seed", metavar="N", help="Other random numbers for inputs and weights.")
]
