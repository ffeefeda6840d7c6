"""Machines that a request names: a bundled one, a cluster file, or a rank table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath

from ir.plan import Plan
from planner.pipeline.preparation import dialect_of
from planner.request import SearchRequest
from planner.requests.errors import UserError
from planner.requests.sources import Document
from topology.catalogue import named_machine as bundled_machine
from topology.cluster import Cluster
from topology.loading import load_machine
from topology.machine import Machine
from topology.rank_tables import RankTableReport
from topology.rank_tables.machine import TableMachine, machine_of_table

_RANK_TABLE_KEYS = (
    '"server_list"', '"group_list"', '"rank_list"', '"super_pod_list"', '"node_list"',
)  # fmt: skip


def is_rank_table(file: Document) -> bool:
    """Whether a text is meant as a rank table; a cluster file names its schema_version."""
    if "schema_version" in file.text:
        return False
    is_json = file.text.lstrip()[:1] == "{" and any(key in file.text for key in _RANK_TABLE_KEYS)
    return is_json or PurePath(file.name).suffix.lower() == ".json"


def named_machine(cluster: str | Document, where: str) -> Machine:
    """The machine of a bundled name or of a cluster file.

    Raises:
        UserError: the file is a rank table.
        ClusterError: there is no such machine, or the file has faults.
    """
    if isinstance(cluster, str):
        return bundled_machine(cluster)
    if is_rank_table(cluster):
        raise UserError(
            f"{cluster.name} is a rank table, which has no links",
            where,
            "name a cluster file; `planner topology check` reads rank tables",
        )
    return load_machine(cluster.text, cluster.name)


@dataclass(frozen=True, slots=True)
class JobMachine:
    """What a job runs on."""

    cluster: Cluster
    """The planner's view."""

    notes: tuple[str, ...] = ()
    """What the view leaves out, in words."""

    table: TableMachine | None = None
    """The rank table, if the machine was given as one."""

    def noted(self, plan: Plan) -> Plan:
        """The plan with the notes, and with the ranks of the table, if there is one, for places."""
        order = plan.rank_order
        if self.table is not None:
            order = tuple(self.table.rank_order[place] for place in order)
        return replace(plan, rank_order=order, notes=(*plan.notes, *self.notes))


def machine(
    cluster: str | Document, devices: int | None, product: str | None, request: SearchRequest
) -> JobMachine:
    """The part of a machine that a job takes, if the target runs on so many devices.

    Args:
        cluster: name of a bundled machine, or a cluster file or rank table.
        devices: of the job; `None` takes all of a rank table, or of a cluster file with a size.
        product: for a rank table, whose rules it keeps; `None` infers it.
        request: says for which target.

    Raises:
        RequestError: the target does not run on so many devices.
        ClusterError: there is no such machine, or it has no such part.
        UserError: an option does not go with it.
    """
    name = cluster if isinstance(cluster, str) else cluster.name
    where = f"--cluster {name}"
    if isinstance(cluster, Document) and is_rank_table(cluster):
        return _of_rank_table(cluster.text, where, devices, product, request)
    if product is not None:
        raise UserError(
            "only a rank table leaves the product open", f"--product {product}", "leave it out"
        )
    found = named_machine(cluster, where)
    count = _count(found, devices, where)
    _check_target(request, count)
    return JobMachine(found.cluster(count), found.notes(count))


def _count(found: Machine, devices: int | None, where: str) -> int:
    most = found.max_devices
    if devices is None and (most is None or found.is_open):
        raise UserError(
            "the number of devices is open", where, "say how many the job takes, as in --devices 16"
        )
    return devices if devices is not None else most or 0


def _check_target(request: SearchRequest, devices: int) -> None:
    dialect_of(request.target, devices, all_to_all=request.all_to_all)


def _of_rank_table(
    text: str, where: str, devices: int | None, product: str | None, request: SearchRequest
) -> JobMachine:
    found = machine_of_table(text, where, product)
    count = found.cluster.devices
    if devices not in {None, count}:
        raise UserError(
            f"the rank table has {count} devices, not {devices}",
            f"--devices {devices}",
            "leave --devices out",
        )
    _check_target(request, count)
    return JobMachine(found.cluster, _notes(found.report), found)


def _notes(report: RankTableReport) -> tuple[str, ...]:
    """How the table was understood."""
    how = "given" if report.inferred is None else f"inferred from {report.inferred}"
    warnings = [f"rank table: {each.code} {each.where}: {each.message}" for each in report.warnings]
    return (f"rank table of product {report.product} ({how})", *warnings)
