"""MindSpore's names for options of `planner search`, with their help."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

PANEL = "MindSpore's names"

SearchMode: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--search-mode",
        metavar="NAME",
        help="sharding_propagation is --solver propagation; dynamic_programming and "
        "recursive_programming are the solvers of these names.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
PipelineStages: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--pipeline-stages",
        metavar="N",
        help="The same as --pipeline N.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
GradientAccumulation: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--gradient-accumulation",
        metavar="K",
        help="Micro-batches of a step: --micro-batch B/K of --global-batch B.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
EnableParallelOptimizer: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--enable-parallel-optimizer",
        help="The same as --zero 1; MindSpore's levels 2 and 3 are --zero 2 and --zero 3.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
FullyUseDevices: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--fully-use-devices/--no-fully-use-devices",
        help="Cut an operator over all devices or not at all.",
        rich_help_panel=PANEL,
    ),
]
RunPhase: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--run-phase",
        metavar="0|1",
        help="0 is --phase train, 1 is --phase infer.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
Level: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--level",
        metavar="0|1|2",
        help="Objective of shard: 0 most computation for each communication, 1 least memory, 2 "
        "most speed, which is the default.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
