"""Arguments of the commands, and options that no record has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

_MODEL_HELP = (
    "The model: .onnx, .onnx.gz, PyTorch's .pt2 or .fx.json, JAX as StableHLO text (.mlir), "
    "MindSpore's .mindir, a Hugging Face config.json, or a name that `planner sizes --list` "
    "prints. Its weights are not needed."
)
Model: TypeAlias = Annotated[Path, typer.Argument(metavar="MODEL", help=_MODEL_HELP)]
OptionalModel: TypeAlias = Annotated[
    Path | None,
    typer.Argument(metavar="MODEL", help=_MODEL_HELP, show_default=False),
]
PlanPath: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="PLAN.json", help="A plan.json that `planner search -o DIR` wrote."),
]
OtherPlanPath: TypeAlias = Annotated[
    Path, typer.Argument(metavar="OTHER.json", help="The plan to compare it with.")
]
