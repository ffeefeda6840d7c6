"""The options of the commands on rank tables, with their help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from cli.command_options import JSON, Output
from cli.options import Argument
from planner.requests.option_texts import MAX_DEVICES
from planner.requests.options.option import Group, Option

Tables: TypeAlias = Annotated[
    list[Path] | None,
    Argument(value="[TABLE]...", help="Tables of single servers, to be merged."),
]


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class RankTableCommand:
    """Of `planner topology rank-table`."""

    cluster: Annotated[str | None, Option(
        group=Group.MACHINE, value="NAME", help="The machine, such as atlas-800-9000.",
    )] = None
    servers: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", least=1, most=MAX_DEVICES,
        usual="those of --hosts, or as many as --devices fill",
        help="How many servers the job takes.",
    )] = None
    devices: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", unit="devices", least=1, usual="all of each server",
        help="How many devices it takes, over all servers.",
    )] = None
    device_ids: Annotated[str | None, Option(
        group=Group.MACHINE, value="A-B|A,B", help="Which devices of each server, such as 4-7.",
    )] = None
    plan: Annotated[Path | None, Option(
        group=Group.MACHINE, value="PLAN",
        help="Make the table for a plan, in the order of its ranks.",
    )] = None
    hosts: Annotated[Path | None, Option(
        group=Group.MACHINE, value="FILE",
        help="The servers, a line each: id, addresses of its devices. Without it ids and addresses "
        "are placeholders.",
    )] = None
    output: Annotated[Path | None, Output(
        value="FILE", help="Write here instead of to stdout.",
    )] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HccnCommand:
    """Of `planner topology hccn`."""

    rank_table: Annotated[Path, Option(
        group=Group.MACHINE, value="FILE", help="The rank table of the job.",
    )]
    peers: Annotated[str, Option(
        group=Group.MACHINE, choices=("all", "next"), noun="choice of peers",
        help="Check every card with its peers on all other servers, or on the next one only.",
    )] = "all"
    as_json: Annotated[bool, JSON] = False
# fmt: on
