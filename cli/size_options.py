"""The options of `planner sizes`: each is a size of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

BaseModel: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="What to start from: the name of a published model, or a config.json. Without it the "
        "blocks are Llama's.",
        show_default=False,
    ),
]
Listing: TypeAlias = Annotated[
    bool, typer.Option("--list", help="Print the published models whose sizes are bundled.")
]
Layers: TypeAlias = Annotated[
    int | None, typer.Option("--layers", metavar="N", help="Layers.", show_default=False)
]
Hidden: TypeAlias = Annotated[
    int | None,
    typer.Option("--hidden", metavar="N", help="Width between the layers.", show_default=False),
]
Heads: TypeAlias = Annotated[
    int | None, typer.Option("--heads", metavar="N", help="Query heads.", show_default=False)
]
KeyHeads: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--kv-heads", metavar="N", help="Heads of keys and values.", show_default="as --heads"
    ),
]
HeadWidth: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--head-width", metavar="N", help="Width of a head.", show_default="hidden over heads"
    ),
]
FeedForward: TypeAlias = Annotated[
    int | None,
    typer.Option("--ffn", metavar="N", help="Width of the feed-forward block.", show_default=False),
]
Vocabulary: TypeAlias = Annotated[
    int | None,
    typer.Option("--vocabulary", metavar="N", help="Tokens that there are.", show_default=False),
]
Experts: TypeAlias = Annotated[
    int | None,
    typer.Option("--experts", metavar="N", help="Experts of a layer.", show_default=False),
]
ExpertsPerToken: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--experts-per-token",
        metavar="N",
        help="Experts that a token is sent to.",
        show_default=False,
    ),
]
ExpertWidth: TypeAlias = Annotated[
    int | None,
    typer.Option("--expert-ffn", metavar="N", help="Width of an expert.", show_default="as --ffn"),
]
MtpLayers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--mtp-layers",
        metavar="N",
        help="Multi-token prediction (MTP) layers. Layouts are priced with them (`planner simulate "
        "--layout`, `planner layouts`); a search leaves them out.",
        show_default=False,
    ),
]
Tied: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--tied/--untied",
        help="Whether the last product uses the table of the embedding.",
        show_default="untied",
    ),
]
SizesFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="A config.json to write, which every command takes as MODEL.",
        show_default=False,
    ),
]
