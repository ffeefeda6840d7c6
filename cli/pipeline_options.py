"""The options that cut a training step, with their help."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

GlobalBatch: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--global-batch",
        metavar="B",
        help="Samples of one training step, which the plan may cut into micro-batches and send "
        "through pipeline stages. In place of --batch.",
        show_default=False,
    ),
]
MicroBatch: TypeAlias = Annotated[
    str,
    typer.Option(
        "--micro-batch",
        metavar="auto|M",
        help="Samples of a micro-batch over all devices of a stage; with --global-batch.",
    ),
]
Pipeline: TypeAlias = Annotated[
    str,
    typer.Option(
        "--pipeline",
        metavar="auto|off|N",
        help="Stages of the pipeline, off for one; with --global-batch.",
    ),
]
