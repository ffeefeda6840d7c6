"""The options of `planner sizes`: each is a size of a network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

from cli.command_options import JSON, Output
from cli.options import Argument
from planner.requests.options.option import Group, Option

BaseModel: TypeAlias = Annotated[
    str | None,
    Argument(
        value="MODEL",
        help="What to start from: the name of a published model, or a config.json. Without it the "
        "blocks are Llama's.",
    ),
]


_size = partial(Option, group=Group.MODEL, value="N")
"""A size: a whole number."""


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes that are given; names are those of `importers.sizes`, with underscores."""

    layers: Annotated[int | None, _size(help="Layers.")] = None
    hidden: Annotated[int | None, _size(help="Width between the layers.")] = None
    heads: Annotated[int | None, _size(help="Query heads.")] = None
    key_heads: Annotated[int | None, _size(
        help="Heads of keys and values.", flags=("--kv-heads",), usual="as --heads",
    )] = None
    head_width: Annotated[int | None, _size(
        help="Width of a head.", usual="hidden over heads",
    )] = None
    feed_forward: Annotated[int | None, _size(
        help="Width of the feed-forward block.", flags=("--ffn",),
    )] = None
    vocabulary: Annotated[int | None, _size(help="Tokens of the vocabulary.")] = None
    experts: Annotated[int | None, _size(help="Experts of a layer.")] = None
    experts_per_token: Annotated[int | None, _size(help="Experts that a token is sent to.")] = None
    expert_width: Annotated[int | None, _size(
        help="Width of an expert.", flags=("--expert-ffn",), usual="as --ffn",
    )] = None
    MTP_layers: Annotated[int | None, _size(
        help="Multi-token prediction (MTP) layers. Layouts are priced with them (`planner simulate "
        "--layout`, `planner layouts`); a search leaves them out.", flags=("--mtp-layers",),
    )] = None
    tied: Annotated[bool | None, Option(
        group=Group.MODEL, flags=("--tied/--untied",), usual="untied",
        help="Whether the last product uses the table of the embedding.",
    )] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesCommand:
    """Of `planner sizes`, besides the sizes."""

    listing: Annotated[bool, Option(
        group=Group.MODEL, flags=("--list",),
        help="Print the published models whose sizes are bundled.",
    )] = False
    output: Annotated[Path | None, Output(
        value="FILE", help="A config.json to write, which every command takes as MODEL.",
    )] = None
    as_json: Annotated[bool, JSON] = False
# fmt: on
