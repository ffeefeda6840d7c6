"""The options of `planner reshard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

FORMATS = ("safetensors", "ckpt", "distcp")
_LAYOUT = "a plan.json, or a strategy file of MindSpore (.ckpt or .json)"

From: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="LAYOUT",
        help=f"How the checkpoint is sliced: {_LAYOUT}.",
        show_default="it is whole",
    ),
]
To: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--to",
        metavar="LAYOUT",
        help=f"How the new one should be sliced: {_LAYOUT}.",
        show_default=False,
    ),
]
Single: TypeAlias = Annotated[
    bool, typer.Option("--single", help="Put everything together into one file.")
]
Like: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--like",
        metavar="RANKS",
        help="For each new rank the old one whose slices it gets, such as 0-3 or 0-3,0-3: fewer "
        "or more copies of the same slices.",
        show_default=False,
    ),
]
In: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--in",
        metavar="DIR",
        help="The checkpoint: a folder with rank_0, rank_1, ..., or a file, or a folder with the "
        "files of a whole model, .safetensors or .ckpt; or a distributed checkpoint of torch. It "
        "is not changed.",
        show_default=False,
    ),
]
Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder of the new checkpoint; it appears when all is written.",
        show_default=False,
    ),
]
HostMemory: TypeAlias = Annotated[
    str,
    typer.Option("--memory", metavar="SIZE", help="Memory that this program may use."),
]
DryRun: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Write nothing; say what would move between which ranks, and how long that takes. "
        "Two plans do without --in: that is the cost of moving a running job to a new plan.",
    ),
]
Names: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--names",
        metavar="NETWORK|FILE",
        help="New names, turned matrices and parts: llama, gpt2, bert or resnet as MindFormers "
        "has them, or a YAML or JSON file of patterns.",
        show_default=False,
    ),
]
ReverseNames: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--reverse-names",
        help="The checkpoint has the network's names, the new one gets the model's.",
    ),
]
Tie: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--tie",
        metavar="NEW=OLD",
        help="A tensor that the checkpoint lacks equals another one, such as "
        "lm_head.weight=embed.weight. May be repeated.",
        show_default=False,
    ),
]
Stack: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--stack",
        metavar="OLD=NEW",
        help="Tensors of a number each become one with a first dimension of its own, or the other "
        "way round: '*.experts.{}.w1=*.experts.w1', '*.experts.w1=*.experts.{}.w1'. * is any one "
        "part of a name. May be repeated.",
        show_default=False,
    ),
]
WeightsOnly: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--weights-only", help="Leave out optimizer states and whatever else no layout names."
    ),
]
NewDtype: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="bf16|fp16|fp32",
        help="Element type for floating-point parameters; states keep theirs.",
        show_default="the checkpoint's",
    ),
]
FileFormat: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="safetensors|ckpt|distcp",
        help="Form of the new files; distcp is a distributed checkpoint of torch.",
        show_default="the checkpoint's",
    ),
]
FileName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--file-name",
        metavar="NAME",
        help="Name of each new file, less its suffix; torch's files have names of their own.",
    ),
]
Verify: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify",
        help="Read the checkpoint once beforehand and hold it against its checksums, if it has.",
    ),
]
LinkCluster: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME|FILE",
        help="The machine whose links a dry run prices the messages on.",
        show_default="that of the new plan, or of the old one",
    ),
]
Lost: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--lost",
        metavar="DEVICES",
        help="Devices of the old plan that are gone, such as 8-15, for a dry run of two plans.",
        show_default=False,
    ),
]
