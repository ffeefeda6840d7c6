"""Arguments of the commands: what is named by its place."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

from planner.requests.options.option import Group, Option

Argument = partial(Option, group=Group.ARGUMENTS)
"""The declaration of an argument."""

_MODEL = Argument(
    value="MODEL",
    help="The model: .onnx, .onnx.gz, PyTorch's .pt2 or .fx.json, JAX as StableHLO text (.mlir), "
    "a .mindir, a Hugging Face config.json, or a name that `planner sizes --list` "
    "prints. Its weights are not needed.",
)
Model: TypeAlias = Annotated[Path, _MODEL]
OptionalModel: TypeAlias = Annotated[Path | None, _MODEL]
PlanPath: TypeAlias = Annotated[
    Path, Argument(value="PLAN.json", help="A plan.json that `planner search -o DIR` wrote.")
]
OtherPlanPath: TypeAlias = Annotated[
    Path, Argument(value="OTHER.json", help="The plan to compare it with.")
]
