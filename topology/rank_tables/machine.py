"""The machine of a rank table: the cards of the job, and the order of its ranks over them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from topology.catalogue import cluster_names, named_cluster
from topology.cluster import Cluster, Tier
from topology.errors import ClusterError
from topology.rank_tables.checking import (
    RankTableReport,
    check_rank_table,
    products_accepting,
)
from topology.rank_tables.places import by_first_rank, in_place_order, rank_of, reordered
from topology.rank_tables.products import Product
from topology.rank_tables.records import RankTable, Server
from topology.rank_tables.rules_products import MODULE

__all__ = ["TableMachine", "machine_of_table"]

_MACHINES = {
    Product.A1: "atlas-800-9000",
    Product.A2: "atlas-800t-a2",
    Product.A3: "cloudmatrix384",
}
_BOX16 = "atlas-200t-a2-box16"
_WHOLE_SERVER = {"atlas-800-9000": 8, "atlas-800t-a2": 8, "cloudmatrix384": 16, _BOX16: 16}
"""Cards of a server."""


@dataclass(frozen=True, slots=True)
class TableMachine:
    """What a search needs to know of a rank table."""

    cluster: Cluster
    rank_order: tuple[int, ...]
    """The rank, in the table, of the card at each place of the cluster: places count servers first,
    then rings, then cards, the last fastest."""

    report: RankTableReport

    def table_in(self, order: Sequence[int]) -> RankTable:
        """The table for a plan: the card that has the rank `order[r]` gets the rank r."""
        if self.report.table is None:
            raise TypeError("a machine without a table")
        return reordered(self.report.table, order)


def machine_of_table(text: str, where: str, product: str | None = None) -> TableMachine:
    """The machine that a rank table describes: the product's links, the table's servers and cards.

    Args:
        text: of the table, any version.
        where: name of the text for errors, such as its file name.
        product: None infers it, see `check_rank_table`.

    Raises:
        ClusterError: the table breaks a rule, or there is no bundled machine of its product.
    """
    report = check_rank_table(text, product)
    if report.errors or report.table is None:
        what = "the rank table cannot be used: " + "; ".join(report.told())
        raise ClusterError(what, where, _fix(text, report))
    if any(device.device_id is None for _, device in report.table.placed()):
        raise ClusterError(
            "a rank of the table runs on a host", where, "plan the ranks on devices alone"
        )
    servers = by_first_rank(report.table)
    order = tuple(
        rank_of(device) for server in servers for device in in_place_order(server, report.product)
    )
    return TableMachine(_cluster(servers, report, where), order, report)


def _fix(text: str, report: RankTableReport) -> str:
    if report.inferred is None or report.table is None:
        return "mend the table"
    others = " or ".join(f"--product {each}" for each in products_accepting(text))
    hint = f", or give {others}: it keeps those rules" if others else ""
    return f"mend the table (product {report.product}: inferred from {report.inferred}){hint}"


def _name(servers: Sequence[Server], report: RankTableReport, where: str) -> str:
    """The bundled machine whose servers these are."""
    last = max(device.device_id or 0 for server in servers for device in server.devices)
    name = (
        _BOX16 if report.product is Product.A2 and last >= MODULE else _MACHINES.get(report.product)
    )
    if name not in cluster_names():
        raise ClusterError(
            f"no bundled machine has servers of product {report.product} with device {last}",
            where,
            "describe the machine in a cluster file, and plan with that",
        )
    return name


def _cluster(servers: Sequence[Server], report: RankTableReport, where: str) -> Cluster:
    """The part of a bundled machine with these servers and cards."""
    name = _name(servers, report, where)
    counts = [len(server.devices) for server in servers]
    one = _one_server(name, servers[0])
    if len(counts) == 1:
        return one
    pods = _servers_by_pod(servers, report)
    network = _network(name) if len(pods) == 1 else _network_between_pods()
    if len(set(counts)) > 1 or len(set(pods)) > 1:
        # HCCL runs such a job as one flat ring over the ports that all its cards have.
        return replace(one, tiers=(replace(network, size=sum(counts)),))
    inner = tuple(tier for tier in one.tiers if tier.size > 1)
    if len(pods) > 1:
        outer = (replace(network, size=len(pods)), replace(_network(name), size=pods[0]))
        return replace(one, tiers=(*(tier for tier in outer if tier.size > 1), *inner))
    return replace(one, tiers=(replace(network, size=len(counts)), *inner))


def _one_server(name: str, server: Server) -> Cluster:
    """The part of a bundled machine with the cards of one server."""
    count = len(server.devices)
    modules = {(device.device_id or 0) // MODULE for device in server.devices}
    if name != _BOX16 or len(modules) == 1:
        return named_cluster(name, count)
    whole = named_cluster(name, _WHOLE_SERVER[name])
    between, inside = whole.tiers
    kept = (replace(inside, size=count // 2),) if count > 2 else ()
    return replace(whole, tiers=(between, *kept))


def _servers_by_pod(servers: Sequence[Server], report: RankTableReport) -> list[int]:
    """Numbers of servers in each super pod; all in one if the table has no pods."""
    pods = report.table.pods if report.table is not None else None
    return [len(pod.server_ids) for pod in pods] if pods else [len(servers)]


def _network(name: str) -> Tier:
    """The tier that joins whole servers of a bundled machine."""
    return named_cluster(name, 2 * _WHOLE_SERVER[name]).tiers[0]


def _network_between_pods() -> Tier:
    """Cards of different super pods meet over RoCE, at 200 Gb/s a die as on 910B servers."""
    return replace(_network(_MACHINES[Product.A2]), name="pod")
