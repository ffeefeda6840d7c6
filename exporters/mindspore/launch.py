"""Scripts that start a job as planned: with a rank table, msrun or mpirun.

The rules are those of MindSpore's documents:

- Processes that know each other from a rank table alone have the world group only: a plan with
  smaller groups is started by msrun or mpirun, which can create groups.
- Runs that do not sink the dataset (graphs run operator by operator) need GRAPH_OP_RUN=1 and
  HCCL_WHITELIST_DISABLE=1, and msrun or mpirun.
- All servers are started within 120 s.
- Communicators live in the memory that max_device_memory leaves; with too many of them
  HcclCommInitRootInfo fails with error number 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from exporters.errors import ExportError
from exporters.mindspore import launch_scripts
from exporters.mindspore.context import sub_groups
from exporters.mindspore.symbols import planned_symbols
from exporters.places import Places, places_of
from exporters.settings import Made, Setting, Settings, fault
from ir.plan import Plan
from ir.texts import listed
from ir.violations import Violation
from topology.errors import ClusterError
from topology.rank_tables import RankTable, check_rank_table, product_of_chip
from topology.rank_tables.generation import Host, hosts_of_text, made_table, placeholder_hosts
from topology.rank_tables.places import reordered
from topology.rank_tables.writing import rank_table_text

__all__ = ["SETTINGS", "scripts"]

STARTS = ("all", "rank_table", "msrun", "mpirun")
_GIB = 2**30
_LARGEST_TABLE = 2**26

SETTINGS = (
    Setting("start", "all|rank_table|msrun|mpirun", "which scripts; all is all that can work"),
    Setting("script", "FILE", "what every process runs, train.py by default"),
    Setting("arguments", "TEXT", "what the script is given, one word or several"),
    Setting("hosts", "FILE", "a line for each server: its address, then those of its cards"),
    Setting("rank_table", "FILE", "the table that the plan came with, where cards do not count "
            "from 0 or servers have names; in place of hosts"),
    Setting("port", "1024 to 65535", "of the scheduler, 8118 by default"),
    Setting("sink", "true|false", "whether the dataset is sunk; not with dynamic sizes"),
    Setting("max_device_memory", "GIB", "whole GiB that MindSpore takes of each card's memory"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """What the scripts start."""

    places: Places
    hosts: tuple[Host, ...]
    script: str
    arguments: str
    port: int
    sinks: bool
    table: RankTable | None
    """None where there can be none."""
    no_table: str
    """Why there can be none."""


def scripts(plan: Plan, settings: Settings) -> Made:
    """The scripts by name, with the rank table or host file that they read.

    Raises:
        ExportError: none of the ways asked for can start the plan.
    """
    start = settings.choice("start", STARTS, "all")
    job = _job(plan, settings)
    reasons = {way: tuple(_hindrances(way, plan, job)) for way in STARTS[1:]}
    ways = [way for way in STARTS[1:] if start in {"all", way} and not reasons[way]]
    if not ways:
        asked = [way for way in STARTS[1:] if start in {"all", way}]
        raise ExportError(*(violation for way in asked for violation in reasons[way]))
    files: dict[str, str] = {}
    if start == "all" and job.table is not None:
        files["rank_table.json"] = rank_table_text(job.table)
    for way in ways:
        files |= _FILES[way](job)
    left_out = [
        f"no {way.replace('_', ' ')} script: {reasons[way][0].what}"
        for way in STARTS[1:]
        if start == "all" and reasons[way]
    ]
    return Made(files, (*left_out, *_notes(plan, job, settings)))


def _job(plan: Plan, settings: Settings) -> Job:
    given = _given_table(plan, settings)
    places = places_of(plan) if given is None else _places_in(plan, given)
    if given is None:
        hosts = _hosts(settings, places.servers)
    else:
        hosts = tuple(Host(server.server_id) for server in given.servers)
        _check_addresses(hosts, "rank_table")
    dynamic = bool(planned_symbols(plan))
    sinks = settings.flag("sink", default=not dynamic)
    if sinks and dynamic:
        raise fault("graphs with dynamic sizes are not sunk", "sink", "leave it out")
    table, reason = (given, "") if given is not None else _table(plan, places, hosts)
    return Job(
        places=places,
        hosts=hosts,
        script=settings.text("script", "train.py"),
        arguments=settings.text("arguments", ""),
        port=settings.number("port", 8118, 1024, 65535),
        sinks=sinks,
        table=table,
        no_table=reason,
    )


def _hosts(settings: Settings, servers: int) -> tuple[Host, ...]:
    """The servers, in the order of their addresses as strings, which MindSpore asks for."""
    text = settings.file_text("hosts")
    try:
        found = hosts_of_text(text, "--set hosts") if text else placeholder_hosts(servers)
    except ClusterError as error:
        raise fault(error.what, "hosts", "write a line for each server") from error
    if len(found) != servers:
        raise fault(f"{len(found)} servers, the plan has {servers}", "hosts", "name as many")
    _check_addresses(found, "hosts")
    return tuple(sorted(found, key=lambda host: host.server_id))


def _check_addresses(hosts: Sequence[Host], name: str) -> None:
    strange = [host.server_id for host in hosts if not _is_address(host.server_id)]
    if strange:
        raise fault(f"{strange[0][:80]!r} is no address", name, "give names or addresses")


def _is_address(text: str) -> bool:
    return text.isascii() and all(c.isalnum() or c in ".-:_" for c in text) and text[0] != "-"


def _given_table(plan: Plan, settings: Settings) -> RankTable | None:
    """The rank table of the job, if the user has one: its ranks are those of the plan."""
    text = settings.file_text("rank_table", _LARGEST_TABLE)
    if not text:
        return None
    if settings.has("hosts"):
        raise fault("hosts and a rank table", "hosts", "give one of them")
    report = check_rank_table(text)
    if report.table is None or report.errors:
        first = report.errors[0]
        raise fault(f"{first.code}: {first.message}", "rank_table", "give a valid table")
    cards = [card for server in report.table.servers for card in server.devices]
    known = all(card.rank is not None and card.device_id is not None for card in cards)
    equal = len({len(server.devices) for server in report.table.servers}) == 1
    if not (known and equal) or len(cards) != plan.devices:
        what = f"{len(cards)} cards in the table, {plan.devices} in the plan"
        fix = "give a table of the plan's cards, equally many of each server, with their ranks"
        raise fault(what if known and equal else "unequal servers, or no ranks", "rank_table", fix)
    return report.table


def _places_in(plan: Plan, table: RankTable) -> Places:
    """The places of a plan on the cards of a table."""
    servers = [sorted(server.devices, key=lambda card: card.device_id or 0)
               for server in table.servers]  # fmt: skip
    cards = [card for server in servers for card in server]
    device_of = {card.rank: device for device, card in enumerate(cards)}
    return replace(
        places_of(plan),
        servers=len(servers),
        cards=len(servers[0]),
        rank_order=tuple(device_of[rank] for rank in range(len(cards))),
        card_ids=tuple(tuple(card.device_id or 0 for card in server) for server in servers),
    )


def _table(plan: Plan, places: Places, hosts: tuple[Host, ...]) -> tuple[RankTable | None, str]:
    """The rank table in the order of the plan's ranks, or why there is none."""
    product = product_of_chip(places.chip)
    if product is None or product.value == "950":
        return None, "the machine has no rank tables"
    try:
        made = made_table(product, hosts, range(places.cards))
    except ClusterError as error:
        raise fault(error.what, "hosts", error.fix) from error
    table = reordered(made, plan.rank_order)
    report = check_rank_table(rank_table_text(table), product)
    if report.errors:
        first = report.errors[0]
        return None, f"the rank table breaks {first.code}: {first.message}"
    return table, ""


def _hindrances(way: str, plan: Plan, job: Job) -> Iterator[Violation]:
    """Why a way cannot start the plan."""
    at = f"--set start={way}"
    if way == "rank_table":
        groups = sub_groups(plan)
        if groups:
            what = f"the plan has groups other than the world group: {listed(groups, 3)}"
            yield Violation(what, at, "start it by msrun or mpirun")
        if not job.sinks:
            what = "a run that does not sink the dataset needs another start"
            yield Violation(what, at, "start it by mpirun or msrun")
        if job.table is None:
            yield Violation(job.no_table, at, "start it by msrun or mpirun")
    elif not job.places.is_server_by_server:
        what = "the plan's ranks do not go through the servers one after the other"
        yield Violation(what, at, "start it with the rank table, or plan without moving ranks")


def _notes(plan: Plan, job: Job, settings: Settings) -> Iterator[str]:
    named = settings.has("hosts") or settings.has("rank_table")
    if not named and (job.table is not None or job.places.servers > 1):
        yield "addresses are placeholders: give --set hosts=FILE, or put yours in their place"
    if job.places.servers > 1:
        yield "start all servers within 120 s: connections are given up after that"
    memory = job.places.memory_bytes
    used = plan.estimate.communicator_bytes
    taken = settings.number("max_device_memory", 0, 0, 10**6) * _GIB
    left = memory - taken if taken else memory - _without_buffers(plan, job.places)
    if memory and used > left:
        yield (
            f"{plan.estimate.communicators} communicators take {used / _GIB:.2f} GiB of each card, "
            f"and {max(left, 0.0) / _GIB:.2f} GiB of {memory / _GIB:.0f} GiB are left for them: "
            "HcclCommInitRootInfo fails with error number 2; set max_device_memory to at most "
            f"{max(0, int((memory - used) / _GIB))}GB"
        )


def _without_buffers(plan: Plan, places: Places) -> float:
    """What the model takes at its peak, without the communicators that are counted there."""
    excess = max(0.0, plan.estimate.communicator_bytes - places.reserved_bytes)
    return max(0.0, plan.estimate.peak_memory_bytes - excess)


def _rank_table_files(job: Job) -> dict[str, str]:
    if job.table is None:
        return {}
    text = launch_scripts.by_rank_table(
        job.places, job.script, job.arguments, [host.server_id for host in job.hosts]
    )
    return {"rank_table.json": rank_table_text(job.table), "run_rank_table.sh": text}


def _msrun_files(job: Job) -> dict[str, str]:
    text = launch_scripts.by_msrun(
        job.places, job.script, job.arguments, job.hosts[0].server_id, job.port, sinks=job.sinks
    )
    return {"run_msrun.sh": text}


def _mpirun_files(job: Job) -> dict[str, str]:
    text = launch_scripts.by_mpirun(job.places, job.script, job.arguments, sinks=job.sinks)
    lines = [f"{host.server_id} slots={job.places.cards}\n" for host in job.hosts]
    return {"run_mpirun.sh": text} | (
        {"hostfile": "".join(lines)} if job.places.servers > 1 else {}
    )


_FILES = {"rank_table": _rank_table_files, "msrun": _msrun_files, "mpirun": _mpirun_files}
