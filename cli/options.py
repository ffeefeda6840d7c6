"""Arguments of the commands, and options that no record has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from cli.command_options import JSON, OPERATOR
from cli.declared import plain

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
Operators: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--operators",
        help="Print what is known of each kind of operator, of the model or, without one, of all "
        "that ONNX has.",
    ),
]
OutputFile: TypeAlias = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="FILE", help="The file to write; its suffix chooses the form."
    ),
]
Json: TypeAlias = Annotated[bool, plain("as_json", bool, JSON)]
PlanPath: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="PLAN.json", help="A plan.json that `planner search -o DIR` wrote."),
]
OtherPlanPath: TypeAlias = Annotated[
    Path, typer.Argument(metavar="OTHER.json", help="The plan to compare it with.")
]
OperatorName: TypeAlias = Annotated[str | None, plain("op", str, OPERATOR)]
HtmlFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Write the report with plots too.", show_default=False
    ),
]
EXPORT_FORMATS = (
    "mindspore", "mindspore-apply", "mindspore-operators", "mindspore-groups", "jax", "torch",
    "megatron", "mindspore-script", "launch", "msjob", "parameter-server", "table", "html",
)  # fmt: skip
"""As in `exporters.formats`, whose import takes too long for a help text."""
Format: TypeAlias = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"What to write: {', '.join(EXPORT_FORMATS)}.",
    ),
]
ExportSettings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="What the files need to know and the plan does not say, for mindspore-script, launch, "
        "msjob and parameter-server; docs/mindspore.md lists the names. May be repeated.",
        show_default=False,
    ),
]
NamesSource: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--names",
        metavar="NETWORK|FILE",
        help="What MindSpore's network calls the parameters: llama, gpt2, bert or resnet as "
        "MindFormers has them, or a YAML or JSON file of patterns.",
        show_default="the model's names",
    ),
]
