"""From the entries of a server file to the directed links inside one server."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np

from topology.links import Link, Node, Resource, ServerLinks
from topology.routing import LocalRoutes
from topology.server_file import LinkEntry, NicEntry, ServerFile, Torus
from topology.units import parse_bandwidth, parse_ratio, parse_seconds

__all__ = ["MOST_LINKS", "device_order", "groups_of", "nested_groups", "pairs_of", "server_links"]

MOST_LINKS = 2**17
"""Links between devices of one server, and of all templates of a file together."""


def nested_groups(server: ServerFile) -> list[tuple[str, tuple[tuple[int, ...], ...]]]:
    """The named groups of a server, the largest first."""
    return sorted(server.groups.items(), key=lambda item: (len(item[1]), item[0]))


def device_order(server: ServerFile) -> tuple[int, ...]:
    """The server's devices in rank order: group by group, as the groups are listed."""
    place: dict[int, list[int]] = {device: [] for device in range(server.devices)}
    inner = {device: device for device in place}
    for _, groups in nested_groups(server):
        for index, group in enumerate(groups):
            for position, device in enumerate(group):
                place[device].append(index)
                inner[device] = position
    return tuple(sorted(place, key=lambda device: (*place[device], inner[device])))


def groups_of(members: object, devices: int) -> tuple[tuple[int, ...], ...]:
    """Groups of a generator; `all` is one group of all devices."""
    if members == "all":
        return (tuple(range(devices)),)
    assert isinstance(members, tuple)
    return members


def pairs_of(entry: LinkEntry, devices: int) -> Iterator[tuple[int, int]]:
    """First and second device of every link of an entry that is no switch."""
    if entry.full_mesh is not None:
        for group in groups_of(entry.full_mesh, devices):
            yield from combinations(group, 2)
    elif entry.ring is not None:
        for group in groups_of(entry.ring, devices):
            yield from ring_pairs(group)
    elif entry.torus is not None:
        yield from _torus_pairs(entry.torus, devices)
    else:
        yield from ((pair[0], pair[1]) for pair in entry.pairs or entry.directed or ())


def ring_pairs(group: Sequence[int], *, wrap: bool = True) -> Iterator[tuple[int, int]]:
    """Neighbours in a ring; two members have one link, not two."""
    yield from pairwise(group)
    if wrap and len(group) > 2:
        yield group[-1], group[0]


def _torus_pairs(torus: Torus, devices: int) -> Iterator[tuple[int, int]]:
    for group in groups_of(torus.devices, devices):
        grid = np.array(group).reshape(torus.dims)
        for axis, wrap in enumerate(torus.wraps()):
            lines = np.moveaxis(grid, axis, -1).reshape(-1, torus.dims[axis])
            for line in lines.tolist():
                yield from ring_pairs(line, wrap=wrap)


@dataclass(slots=True)
class _Draft:
    """Nodes, links and resources while they are collected."""

    nodes: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    shared: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Resources of the two directions by name."""

    def node(self, name: str, kind: str) -> int:
        self.nodes.append(Node(name, kind))
        return len(self.nodes) - 1

    def join(self, ends: tuple[int, int], like: "_Wire", *, both: bool = True) -> None:
        """A link from the first end to the second, and one back."""
        resources = self.shared[like.via] if like.via is not None else (None, None)
        ways = [(ends, like.latency_s, resources[0])]
        ways += [(ends[::-1], like.latency_back_s, resources[1])] if both else []
        for (source, target), latency_s, resource in ways:
            self.links.append(
                Link(
                    source=source,
                    target=target,
                    bandwidth_bytes_per_s=like.bandwidth_bytes_per_s,
                    latency_s=latency_s,
                    resource=resource,
                    kind=like.kind,
                    nominal_bandwidth_bytes_per_s=like.nominal_bytes_per_s,
                    name=like.name,
                )
            )


@dataclass(frozen=True, slots=True)
class _Wire:
    """What the links of one entry have in common."""

    name: str
    kind: str
    nominal_bytes_per_s: float
    bandwidth_bytes_per_s: float
    latency_s: float
    latency_back_s: float
    via: str | None

    @classmethod
    def of(cls, name: str, entry: LinkEntry | NicEntry, *, lanes: int, port: bool) -> "_Wire":
        """The latency of a port counts once: on the way in, or, for a network, behind it."""
        nominal = parse_bandwidth(entry.bandwidth.value) * lanes
        inside = isinstance(entry, LinkEntry)
        latency = parse_seconds(entry.latency.value) if inside else 0.0
        return cls(
            name=name,
            kind=entry.kind,
            nominal_bytes_per_s=nominal,
            bandwidth_bytes_per_s=nominal * parse_ratio(entry.efficiency.value),
            latency_s=latency,
            latency_back_s=0.0 if port else latency,
            via=entry.via,
        )


def server_links(server: ServerFile) -> ServerLinks:
    """The links inside one server; the file must be free of faults (`topology.checks`)."""
    order = device_order(server)
    rank = {device: position for position, device in enumerate(order)}
    draft = _Draft([Node(str(device), "device") for device in order])
    _add_shared(draft, server)
    for name, entry in server.links.items():
        _add_links(draft, name, entry, rank)
    switches = len(draft.nodes) - len(order)
    nics = {name: _add_nic(draft, name, entry, rank) for name, entry in server.nics.items()}
    routes = LocalRoutes(
        server.name,
        len(order),
        switches,
        [(link.source, link.target) for link in draft.links],
        [link.bandwidth_bytes_per_s for link in draft.links],
    )
    return ServerLinks(
        name=server.name,
        nodes=tuple(draft.nodes),
        links=tuple(draft.links),
        resources=tuple(draft.resources),
        devices=len(order),
        local_ids=order,
        nics={name: np.array(nodes, np.int64) for name, nodes in nics.items()},
        routes=routes,
    )


def _add_shared(draft: _Draft, server: ServerFile) -> None:
    for name, shared in server.shared.items():
        capacity = parse_bandwidth(shared.bandwidth.value)
        total = shared.per == "total"
        labels = (name,) if total else (f"{name} out", f"{name} back")
        first = len(draft.resources)
        draft.resources += [Resource(label, capacity, both_ways=total) for label in labels]
        draft.shared[name] = (first, len(draft.resources) - 1)


def _add_links(draft: _Draft, name: str, entry: LinkEntry, rank: dict[int, int]) -> None:
    if entry.switch is None:
        wire = _Wire.of(name, entry, lanes=entry.lanes, port=False)
        for one, two in pairs_of(entry, len(rank)):
            draft.join((rank[one], rank[two]), wire, both=entry.directed is None)
        return
    wire = _Wire.of(name, entry, lanes=entry.lanes, port=True)
    groups = groups_of(entry.switch, len(rank))
    for index, group in enumerate(groups):
        switch = draft.node(name if len(groups) == 1 else f"{name} {index}", "switch")
        for device in group:
            draft.join((rank[device], switch), wire)


def _add_nic(draft: _Draft, name: str, entry: NicEntry, rank: dict[int, int]) -> list[int]:
    """The ports of one kind; returns the port's node of each device in rank order."""
    wire = _Wire.of(name, entry, lanes=1, port=True)
    ports = nic_ports(entry, rank)
    of_device: dict[int, int] = {}
    for index, port in enumerate(ports):
        node = draft.node(f"{name} {index}", "nic")
        for device in port:
            draft.join((rank[device], node), wire)
            of_device[rank[device]] = node
    return [of_device[position] for position in range(len(rank))]


def nic_ports(entry: NicEntry, devices: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """Devices of every port."""
    if entry.devices == "each":
        return tuple((device,) for device in sorted(devices))
    return entry.devices
