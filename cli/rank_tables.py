"""`planner topology rank-table` and `hccn`: rank tables made and merged; commands for links."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.declared import command
from cli.errors import UserError
from cli.files import text_of, write_files, writer_of
from cli.rank_table_options import HccnCommand, RankTableCommand, Tables

if TYPE_CHECKING:
    from topology.cluster import Cluster
    from topology.rank_tables import Product, RankTable, RankTableReport
    from topology.rank_tables.generation import Host
    from topology.rank_tables.link_checks import LinkCheck

RANK_TABLE_EPILOG = """\b
Examples:
  planner topology rank-table --cluster atlas-800-9000 --servers 1 --devices 2
  planner topology rank-table --cluster atlas-800-9000 --servers 2 --hosts hosts.txt -o table.json
  planner topology rank-table --plan plan/plan.json --hosts hosts.txt -o table.json
  planner topology rank-table server-a.json server-b.json -o merged.json

\b
A line of the hosts file is a server id and, if they are known, the addresses of its cards:
  10.155.111.140 192.1.27.6 192.2.27.6 192.3.27.6 192.4.27.6 192.1.27.7 192.2.27.7 ..."""

HCCN_EPILOG = """\b
Examples:
  planner topology hccn --rank-table table.json
  planner topology hccn --rank-table table.json --peers next --json"""

_NEEDED_FOR_LINKS = (
    "E_JSON", "E_VERSION", "E_FIELD", "E_EMPTY", "E_SERVER_ID", "E_DEVICE_ID", "E_IP",
)  # fmt: skip
"""Beginnings of the codes without which commands would check the wrong ports."""


@command
def rank_table(tables: Tables = None, *, here: RankTableCommand) -> None:
    """Make the rank table of a job, or merge the tables of single servers."""
    from topology.rank_tables.writing import rank_table_text  # noqa: PLC0415  brings in pydantic

    plan, hosts, output = here.plan, here.hosts, here.output
    job = (here.cluster, here.servers, here.devices, here.device_ids)
    if sum((bool(tables), plan is not None, any(each is not None for each in job))) != 1 or (
        tables and hosts is not None
    ):
        raise UserError(
            "a table is made in one of three ways",
            "the arguments",
            "give --cluster with its options, or --plan PLAN, or tables to merge",
        )
    if tables:
        made = _merged(tables)
    elif plan is not None:
        made = _of_plan(plan, hosts)
    else:
        made = _made(here)
    text = rank_table_text(made)
    if output is None:
        print(text, end="")
        return
    write_files(output.parent, {output.name: writer_of(text)})
    print(output)


def _made(here: RankTableCommand) -> RankTable:
    from topology.rank_tables.generation import made_table  # noqa: PLC0415
    from topology.rank_tables.jobs import JobServer, job_faults  # noqa: PLC0415

    if not here.cluster:
        raise UserError("the machine is not named", "the arguments", "give --cluster NAME")
    servers, devices, hosts = here.servers, here.devices, here.hosts
    product, whole = _product(here.cluster)
    named = None if here.device_ids is None else _id_list(here.device_ids)
    each = whole if named is None else len(named)
    if servers is None and hosts is None and devices is not None:
        servers = _whole_servers(devices, each)
    given = _hosts(servers, hosts)
    chosen = _device_ids(whole, len(given), devices, named)
    faults = job_faults(product, [JobServer(host.server_id, chosen) for host in given])
    if faults:
        raise UserError(
            f"a job cannot have these devices: {faults[0]}",
            "--servers, --devices or --device-ids",
            "see docs/rank-tables.md for what jobs may have",
        )
    return _checked(made_table(product, given, chosen), product, f"--hosts {hosts}")


def _hosts(servers: int | None, file: Path | None) -> list[Host]:
    """The servers of a job, in the order of their ids as strings."""
    from topology.rank_tables.generation import hosts_of_text, placeholder_hosts  # noqa: PLC0415

    if file is None:
        number = 1 if servers is None else servers
        given = placeholder_hosts(number)
    else:
        given = hosts_of_text(table_text(file, f"--hosts {file}"), f"--hosts {file}")
    if servers is not None and servers != len(given):
        raise UserError(
            f"{len(given)} servers in the file, not {servers}", f"--hosts {file}", "name as many"
        )
    if not all(host.ips for host in given):
        print(
            "note: addresses without a line of --hosts are placeholders; put those of "
            "/etc/hccn.conf in their place",
            file=sys.stderr,
        )
    return sorted(given, key=lambda host: host.server_id)


def _of_plan(path: Path, hosts: Path | None) -> RankTable:
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic
    from topology.cluster import Cluster  # noqa: PLC0415
    from topology.rank_tables.generation import made_table  # noqa: PLC0415
    from topology.rank_tables.places import reordered  # noqa: PLC0415

    plan = read_plan(path, staged=True)
    cluster = Cluster.from_dict(plan.cluster)
    product = _product_of(cluster, f"--plan {path}")
    devices = range(cluster.devices // cluster.servers)
    table = made_table(product, _hosts(cluster.servers, hosts), devices)
    return _checked(reordered(table, plan.rank_order), product, f"--plan {path}")


def _product(name: str) -> tuple[Product, int]:
    """The product of a machine, and how many devices a server of it has."""
    from topology.catalogue import named_cluster, named_machine  # noqa: PLC0415

    machine = named_machine(name)
    whole = machine.file.servers[machine.entries[0].use].devices
    return _product_of(named_cluster(name, 1), f"--cluster {name}"), whole


def _product_of(cluster: Cluster, where: str) -> Product:
    from topology.rank_tables import product_of_chip  # noqa: PLC0415

    found = product_of_chip(cluster.chip.name)
    if found is None or found.value == "950":
        raise UserError(
            f"{cluster.name} has {cluster.chip.name}, and no rank table of version 1",
            where,
            "name a machine with Ascend 910 devices",
        )
    return found


def _whole_servers(devices: int, each: int) -> int:
    """How many servers so many devices fill; one where they fit into it."""
    servers, rest = divmod(devices, each)
    if servers and rest:
        raise UserError(
            f"{devices} devices fill no number of servers with {each} each",
            f"--devices {devices}",
            f"give {servers * each} or {(servers + 1) * each}, or --servers too",
        )
    return max(servers, 1)


def _device_ids(
    whole: int, servers: int, devices: int | None, ids: tuple[int, ...] | None
) -> tuple[int, ...]:
    """The devices of each server."""
    most = range(whole) if ids is None else ids
    if devices is None:
        return tuple(most)
    each, rest = divmod(devices, servers)
    if ids is not None and devices != servers * len(ids):
        raise UserError(
            f"{_count(servers, 'server')} with {_count(len(ids), 'device')} each are "
            f"{servers * len(ids)}, not {devices}",
            f"--devices {devices} with --device-ids",
            "leave one of the two out",
        )
    if rest or not 1 <= each <= whole:
        filled = "" if devices % whole else f"--servers {devices // whole}, or "
        multiple = "" if servers == 1 else f"a multiple of {servers}, "
        raise UserError(
            f"{devices} devices on {_count(servers, 'server')} with {whole} each",
            f"--devices {devices}",
            f"give {filled}{multiple}at most {servers * whole}",
        )
    return tuple(most[:each])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _id_list(text: str) -> tuple[int, ...]:
    """Device ids from `4-7` or `0,1`.

    >>> _id_list("4-7"), _id_list("0,2-3")
    ((4, 5, 6, 7), (0, 2, 3))
    """
    fix = "give ids such as 4-7 or 0,1"
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) < 4 for end in ends):
            raise UserError(f"{part[:40]!r} is no device id", "--device-ids", fix)
        found += range(int(ends[0]), int(ends[1]) + 1)
    if not found or len(set(found)) != len(found):
        raise UserError("no devices, or one of them twice", "--device-ids", fix)
    return tuple(sorted(found))


def _merged(tables: list[Path]) -> RankTable:
    from topology.rank_tables import check_rank_table  # noqa: PLC0415
    from topology.rank_tables.generation import merged  # noqa: PLC0415
    from topology.rank_tables.places import renumbered  # noqa: PLC0415

    reports = [check_rank_table(table_text(path, str(path))) for path in tables]
    for path, report in zip(tables, reports, strict=True):
        if report.table is None:
            raise _unusable(report, str(path))
    products = {report.product for report in reports}
    table = merged([report.table for report in reports if report.table is not None])
    product = products.pop()
    return _checked(renumbered(table, product), product, " ".join(map(str, tables)))


def _checked(table: RankTable, product: Product, where: str) -> RankTable:
    """The table, if it breaks none of the rules that a reader of it would apply."""
    from topology.rank_tables import check_rank_table  # noqa: PLC0415
    from topology.rank_tables.writing import rank_table_text  # noqa: PLC0415

    report = check_rank_table(rank_table_text(table), product)
    for warning in report.warnings:
        print(f"warning: {warning.code} {warning}", file=sys.stderr)
    if report.errors:
        raise _unusable(report, where)
    return table


def _unusable(report: RankTableReport, where: str) -> UserError:
    return UserError("\n".join(report.told()), where, "mend what the lines name")


@command
def hccn(here: HccnCommand) -> None:
    """Print the commands that check the links of every card of a job and to its peers."""
    from topology.rank_tables import check_rank_table  # noqa: PLC0415
    from topology.rank_tables.link_checks import link_checks  # noqa: PLC0415

    rank_table, next_only = here.rank_table, here.peers == "next"
    report = check_rank_table(table_text(rank_table, f"--rank-table {rank_table}"))
    needed = [e for e in report.errors if e.code.startswith(_NEEDED_FOR_LINKS)]
    if report.table is None or needed:
        raise _unusable(report, f"--rank-table {rank_table}")
    checks = link_checks(report.table, next_only=next_only)
    if here.as_json:
        print(json.dumps({"status": "ok", "commands": [_facts(each) for each in checks]}, indent=1))
        return
    server = None
    for check in checks:
        if check.server_id != server:
            server = check.server_id
            print(f"# on {_comment(server)}")
        to = "" if check.peer_server_id is None else f"  # {_comment(check.peer_server_id)}"
        print(f"{check.command}{to}")


def _facts(check: LinkCheck) -> dict[str, object]:
    return {
        "server_id": check.server_id,
        "device_id": check.device_id,
        "peer_server_id": check.peer_server_id,
        "command": check.command,
    }


def _comment(server: str) -> str:
    """A server id that stays on the line of its comment."""
    return server if server.isprintable() else ascii(server)


def table_text(path: Path, where: str) -> str:
    """The text of a file, if it is small enough to be a rank table.

    Raises:
        UserError: it cannot be read, is larger, or is no text.
    """
    return text_of(path, where, "name a rank table, a JSON file")
