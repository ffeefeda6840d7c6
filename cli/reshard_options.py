"""The options of `planner reshard`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cli.command_options import JSON
from planner.requests.option_texts import DTYPES
from planner.requests.options.option import Group, Option

FORMATS = ("safetensors", "ckpt", "distcp")
_LAYOUT = "a plan.json, or a strategy checkpoint (.ckpt or .json)"


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardCommand:
    """Of `planner reshard`."""

    source: Annotated[Path | None, Option(
        group=Group.MODEL, value="DIR", flags=("--in",),
        help="The checkpoint: a folder with rank_0, rank_1, ..., or a file, or a folder with the "
        "files of a whole model, .safetensors or .ckpt; or a distributed checkpoint of torch. It "
        "is not changed.",
    )] = None
    before: Annotated[Path | None, Option(
        group=Group.MODEL, value="LAYOUT", flags=("--from",), usual="it is whole",
        help=f"How the checkpoint is sliced: {_LAYOUT}.",
    )] = None
    after: Annotated[Path | None, Option(
        group=Group.TARGET, value="LAYOUT", flags=("--to",),
        help=f"How the new one should be sliced: {_LAYOUT}.",
    )] = None
    single: Annotated[bool, Option(
        group=Group.TARGET, help="Put everything together into one file.",
    )] = False
    like: Annotated[str | None, Option(
        group=Group.TARGET, value="RANKS",
        help="For each new rank the old one whose slices it gets, such as 0-3 or 0-3,0-3: fewer "
        "or more copies of the same slices.",
    )] = None
    out: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="DIR",
        help="Folder of the new checkpoint; it appears when all is written.",
    )] = None
    memory: Annotated[str, Option(
        group=Group.MACHINE, value="SIZE", help="Memory that this program may use.",
    )] = "1GiB"
    dry_run: Annotated[bool, Option(
        group=Group.OUTPUT,
        help="Write nothing; say what would move between which ranks, and how long that takes. "
        "Two plans do without --in: that is the cost of moving a running job to a new plan.",
    )] = False
    names: Annotated[str | None, Option(
        group=Group.TARGET, value="NETWORK|FILE",
        help="New names, turned matrices and parts: llama, gpt2, bert or resnet as MindFormers "
        "has them, or a YAML or JSON file of patterns.",
    )] = None
    reverse_names: Annotated[bool, Option(
        group=Group.TARGET,
        help="The checkpoint has the network's names, the new one gets the model's.",
    )] = False
    stack: Annotated[tuple[str, ...], Option(
        group=Group.TARGET, value="OLD=NEW",
        help="Tensors of a number each become one with a first dimension of its own, or the other "
        "way round: '*.experts.{}.w1=*.experts.w1', '*.experts.w1=*.experts.{}.w1'. * is any one "
        "part of a name. May be repeated.",
    )] = ()
    tie: Annotated[tuple[str, ...], Option(
        group=Group.TARGET, value="NEW=OLD",
        help="A tensor that the checkpoint lacks equals another one, such as "
        "lm_head.weight=embed.weight. May be repeated.",
    )] = ()
    weights_only: Annotated[bool, Option(
        group=Group.TARGET, help="Leave out optimizer states and whatever else no layout names.",
    )] = False
    dtype: Annotated[str | None, Option(
        group=Group.TARGET, choices=DTYPES, noun="element type", usual="the checkpoint's",
        help="Element type for floating-point parameters; states keep theirs.",
    )] = None
    form: Annotated[str | None, Option(
        group=Group.OUTPUT, choices=FORMATS, noun="format", flags=("--format",),
        usual="the checkpoint's",
        help="Form of the new files; distcp is a distributed checkpoint of torch.",
    )] = None
    file_name: Annotated[str, Option(
        group=Group.OUTPUT, value="NAME",
        help="Name of each new file, less its suffix; torch's files have names of their own.",
    )] = "checkpoint"
    verify: Annotated[bool, Option(
        group=Group.MODEL, flags=("--verify/--no-verify",),
        help="Read the checkpoint once beforehand and hold it against its checksums, if it has.",
    )] = True
    cluster: Annotated[str | None, Option(
        group=Group.MACHINE, value="NAME|FILE", usual="that of the new plan, or of the old one",
        help="The machine whose links a dry run prices the messages on.",
    )] = None
    lost: Annotated[str | None, Option(
        group=Group.MACHINE, value="DEVICES",
        help="Devices of the old plan that are gone, such as 8-15, for a dry run of two plans.",
    )] = None
    as_json: Annotated[bool, JSON] = False
# fmt: on
