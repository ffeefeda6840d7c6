"""The networks between servers, and the graph of a whole machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from topology.cluster_file import FabricEntry
from topology.errors import ClusterError
from topology.link_graph import LinkGraph
from topology.links import Fabric, ServerLinks
from topology.server_file import NicEntry, ServerFile
from topology.units import parse_bandwidth, parse_ratio, parse_seconds
from topology.wiring import nic_ports

__all__ = ["Uplinks", "fabric_nic", "hop_latency_s", "link_graph", "nic_rate", "uplinks_of"]

MOST_LINKS = 2**24
"""Links inside servers that are listed one by one."""

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


def fabric_nic(entry: FabricEntry, server: ServerFile) -> str:
    """The kind of port of a server that a fabric joins."""
    return entry.nic if entry.nic is not None else next(iter(server.nics))


def nic_rate(nic: NicEntry) -> float:
    """Achieved bytes per second and direction of one port."""
    return parse_bandwidth(nic.bandwidth.value) * parse_ratio(nic.efficiency.value)


def hop_latency_s(entry: FabricEntry) -> float:
    """Seconds for each switch on the way."""
    return 0.0 if entry.hop_latency is None else parse_seconds(entry.hop_latency.value)


@dataclass(frozen=True, slots=True)
class Uplinks:
    """What a set of servers under the same leaves has towards the spine."""

    servers: int
    """Servers below one leaf, or below the leaves of all rails."""

    leaves: int
    """Leaves of that set: one, or one for each rail."""

    capacity_bytes_per_s: float | None
    """Of one leaf per direction; `None` if there is no spine."""


def uplinks_of(entry: FabricEntry, nic: NicEntry, devices: int) -> Uplinks | None:
    """The leaves of a fabric, `None` if it is one switch that never blocks.

    Args:
        entry: the fabric.
        nic: its ports, of the servers that have the most of them.
        devices: of such a server.
    """
    if entry.type == "switch":
        return None
    ports = len(nic_ports(nic, range(devices)))
    rails = 1 if entry.type == "leaf_spine" else nic.rails or ports
    below = entry.servers_per_leaf or entry.servers or 2**20
    if entry.type == "rails":
        return Uplinks(below, rails, None)
    if entry.uplinks is not None and entry.uplink_bandwidth is not None:
        capacity = entry.uplinks * parse_bandwidth(entry.uplink_bandwidth.value)
    else:
        capacity = below * ports / rails * nic_rate(nic) / (entry.oversubscription or 1.0)
    return Uplinks(below, rails, capacity)


@dataclass(slots=True)
class _Net:
    """Links and resources between servers while they are collected."""

    next_link: int
    capacities: list[Floats]
    latencies: list[Floats]

    def add(self, capacities: Floats, latencies: Floats) -> int:
        """Number of the first of these links."""
        first = self.next_link
        self.capacities.append(capacities)
        self.latencies.append(latencies)
        self.next_link += len(capacities)
        return first


def link_graph(
    name: str,
    kinds: Sequence[tuple[ServerFile, ServerLinks]],
    kind_of_server: Ints,
    fabrics: Sequence[tuple[str, FabricEntry, int]],
    ranks: tuple[Ints, Ints],
) -> LinkGraph:
    """The links of all servers and of the networks between them.

    Args:
        name: of the machine.
        kinds: template and links of each kind of server.
        kind_of_server: shape (servers,).
        fabrics: name, entry, and how many consecutive servers one such network joins.
        ranks: server and place among its devices of every rank, each of shape (ranks,).
    """
    links = [links for _, links in kinds]
    counts = np.array([len(each.links) for each in links], np.int64)[kind_of_server]
    link_base = _starts(counts)
    total = int(counts.sum())
    if total > MOST_LINKS:
        raise ClusterError(
            f"{total} links between the devices of {len(kind_of_server)} servers",
            f"machine {name!r}",
            f"ask for the links of fewer servers: at most {MOST_LINKS} links are listed",
        )
    net = _Net(total, _tiled(links, kind_of_server, "bandwidth_bytes_per_s"), [])
    net.latencies = _tiled(links, kind_of_server, "latency_s")
    made = tuple(
        _fabric(net, each, [template for template, _ in kinds], kind_of_server) for each in fabrics
    )
    resource_counts = np.array([len(each.resources) for each in links], np.int64)
    resource_base = net.next_link + _starts(resource_counts[kind_of_server])
    shared = np.full(net.next_link, -1, np.int64)
    shared[:total] = _resources(links, kind_of_server, resource_base)
    capacities = [
        np.array([r.capacity_bytes_per_s for r in links[kind].resources])
        for kind in kind_of_server.tolist()
    ]
    return LinkGraph(
        name=name,
        kinds=tuple(links),
        kind_of_server=kind_of_server,
        server_of_rank=ranks[0],
        local_of_rank=ranks[1],
        fabrics=made,
        link_base=link_base,
        resource_base=resource_base,
        capacities_bytes_per_s=np.concatenate([*net.capacities, *capacities]),
        latencies_s=np.concatenate(net.latencies),
        resource_of_link=shared,
    )


def _starts(counts: Ints) -> Ints:
    """Position of the first of each, when so many of each stand in a row."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)


def _tiled(kinds: Sequence[ServerLinks], kind_of_server: Ints, name: str) -> list[Floats]:
    """One number of all links inside servers, server by server."""
    columns = [np.array([getattr(link, name) for link in kind.links], float) for kind in kinds]
    return [columns[kind] for kind in kind_of_server.tolist()]


def _resources(kinds: Sequence[ServerLinks], kind_of_server: Ints, base: Ints) -> Ints:
    """Position of the resource of each link inside servers, or -1."""
    local = [
        np.array([-1 if r is None else r for r in (link.resource for link in kind.links)], np.int64)
        for kind in kinds
    ]
    parts = [
        np.where(local[kind] < 0, -1, local[kind] + start)
        for kind, start in zip(kind_of_server.tolist(), base.tolist(), strict=True)
    ]
    return np.concatenate([*parts, np.empty(0, np.int64)])


def _fabric(
    net: _Net,
    named: tuple[str, FabricEntry, int],
    templates: Sequence[ServerFile],
    kind_of_server: Ints,
) -> Fabric:
    name, entry, domain = named
    nics = [server.nics[fabric_nic(entry, server)] for server in templates]
    rails = [_rails(entry, nic, server) for nic, server in zip(nics, templates, strict=True)]
    ports = np.array([len(each) for each in rails], np.int64)[kind_of_server]
    rail = np.concatenate([rails[kind] for kind in kind_of_server.tolist()])
    server_of_port = np.repeat(np.arange(len(kind_of_server)), ports)
    uplinks = uplinks_of(entry, nics[0], templates[0].devices)
    below = domain if uplinks is None else min(uplinks.servers, domain)
    per_domain = -(-domain // below)
    unit = server_of_port // domain * per_domain + server_of_port % domain // below
    leaf = unit * (1 if uplinks is None else uplinks.leaves) + rail
    hop = hop_latency_s(entry)
    rates = np.array([nic_rate(nic) for nic in nics])[kind_of_server].repeat(ports)
    latency = np.array([parse_seconds(nic.latency.value) for nic in nics])[kind_of_server]
    into = latency.repeat(ports) + hop
    first = net.add(rates.repeat(2), np.stack([into, np.zeros_like(into)], axis=1).reshape(-1))
    leaves = int(leaf.max(initial=-1)) + 1
    up = np.full(leaves, -1, np.int64)
    if uplinks is not None and uplinks.capacity_bytes_per_s is not None:
        rise = net.add(np.full(2 * leaves, uplinks.capacity_bytes_per_s), np.full(2 * leaves, hop))
        up = rise + 2 * np.arange(leaves)
    return Fabric(
        name=name,
        nics=tuple(fabric_nic(entry, server) for server in templates),
        domain=domain,
        leaf_of_port=leaf,
        port_base=_starts(ports),
        uplink_of_leaf=up,
        first_link=first,
    )


def _rails(entry: FabricEntry, nic: NicEntry, server: ServerFile) -> Ints:
    """Rail of every port of a server; all on one unless the fabric has a leaf for every rail."""
    ports = len(nic_ports(nic, range(server.devices)))
    if entry.type in ("switch", "leaf_spine"):
        return np.zeros(ports, np.int64)
    return np.arange(ports) % (nic.rails or ports)
