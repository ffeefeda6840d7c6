"""The options of the commands on rank tables, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Tables: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[TABLE]...", help="Tables of single servers, to be merged.", show_default=False
    ),
]
Cluster: TypeAlias = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="The machine, such as atlas-800-9000."),
]
Servers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--servers",
        metavar="N",
        help="How many servers the job takes.",
        show_default="those of --hosts, or as many as --devices fill",
    ),
]
Devices: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--devices",
        metavar="N",
        help="How many devices it takes, over all servers.",
        show_default="all of each server",
    ),
]
DeviceIds: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--device-ids", metavar="A-B|A,B", help="Which devices of each server, such as 4-7."
    ),
]
Plan: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--plan", metavar="PLAN", help="Make the table for a plan, in the order of its ranks."
    ),
]
Hosts: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--hosts",
        metavar="FILE",
        help="The servers, a line each: id, addresses of its devices. Without it ids and addresses "
        "are placeholders.",
    ),
]
Output: TypeAlias = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write here instead of to stdout."),
]
RankTable: TypeAlias = Annotated[
    Path, typer.Option("--rank-table", metavar="FILE", help="The rank table of the job.")
]
Peers: TypeAlias = Annotated[
    str,
    typer.Option(
        "--peers",
        metavar="all|next",
        help="Check every card with its peers on all other servers, or on the next one only.",
    ),
]
