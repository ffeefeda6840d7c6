"""Which links of a machine concurrent traffic between its ranks goes through.

Every directed link and every shared resource has a capacity. Both stand in one vector, links
first, so that fair sharing sees equal things: a flow is the set of capacities that it draws on.
Servers of one kind share their links' description; a machine of thousands of servers costs a few
arrays.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topology.errors import ClusterError
from topology.links import Fabric, ServerLinks
from topology.routing import ragged

__all__ = ["Flows", "LinkGraph", "Pattern"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_BEFORE_PORT = 10_000
"""More than the links of any way inside a server."""


class Pattern(StrEnum):
    """Which members of a group send to which."""

    RING = "ring"
    """Every member to the next one, in the order given."""

    BOTH_WAYS = "both_ways"
    """Every member to the next and to the previous one."""

    ALL_PAIRS = "all_pairs"
    """Every member to every other."""


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Traffic at one moment: which capacities each flow draws on."""

    sources: Ints
    """Rank that sends, shape (flows,)."""

    targets: Ints
    """Rank that receives, shape (flows,)."""

    groups: Ints
    """Index of the group that each flow belongs to, shape (flows,)."""

    offsets: Ints
    """Flow f draws on `indices[offsets[f] : offsets[f + 1]]`, shape (flows + 1,)."""

    indices: Ints
    """Positions in `LinkGraph.capacities_bytes_per_s`."""

    latencies_s: Floats
    """Sum of the latencies on the way, shape (flows,)."""

    def __len__(self) -> int:
        return len(self.sources)

    def of(self, flow: int) -> Ints:
        """The capacities that one flow draws on."""
        return self.indices[self.offsets[flow] : self.offsets[flow + 1]]


@dataclass(frozen=True, slots=True, eq=False)
class LinkGraph:
    """The links of a machine. Rank r is device `local_of_rank[r]` of server `server_of_rank[r]`."""

    name: str
    kinds: tuple[ServerLinks, ...]
    """One for each kind of server."""

    kind_of_server: Ints
    """Shape (servers,)."""

    server_of_rank: Ints
    """Shape (ranks,)."""

    local_of_rank: Ints
    """Position among the devices of the server, shape (ranks,)."""

    fabrics: tuple[Fabric, ...]
    """Innermost first."""

    link_base: Ints
    """Number of the first link of each server, shape (servers,)."""

    resource_base: Ints
    """Position of the first resource of each server in the vector of capacities, (servers,)."""

    capacities_bytes_per_s: Floats
    """Of all links, then of all resources."""

    latencies_s: Floats
    """Of all links, shape (links,)."""

    resource_of_link: Ints
    """Position in the vector of capacities of the resource that each link draws on, or -1."""

    @property
    def devices(self) -> int:
        """Number of ranks."""
        return len(self.server_of_rank)

    @property
    def links(self) -> int:
        """Number of directed links."""
        return len(self.latencies_s)

    def concurrent_flows(
        self, groups: Iterable[Sequence[int]], pattern: Pattern = Pattern.RING
    ) -> Flows:
        """What the flows of groups that communicate at the same time draw on.

        Args:
            groups: the ranks of each group, in the order of the ring.
            pattern: which members send to which.
        """
        parts = [_pairs(group, pattern) for group in groups]
        counts = [len(part) for part in parts]
        pairs = np.concatenate([*parts, np.empty((0, 2), np.int64)])
        return self.flows(pairs[:, 0], pairs[:, 1], np.repeat(np.arange(len(parts)), counts))

    def flows(self, sources: ArrayLike, targets: ArrayLike, groups: ArrayLike = 0) -> Flows:
        """What messages between pairs of ranks draw on.

        Args:
            sources: ranks that send, shape (flows,).
            targets: ranks that receive, shape (flows,); none is its own source.
            groups: what group each flow belongs to, shape (flows,).

        Raises:
            ClusterError: a rank does not exist, or nothing joins the two.
        """
        one = np.asarray(sources, np.int64).reshape(-1)
        two = np.asarray(targets, np.int64).reshape(-1)
        owner = np.broadcast_to(np.asarray(groups, np.int64), one.shape)
        self._check_ranks(one, two)
        flow, step, link = self._steps(one, two)
        order = np.lexsort((step, flow))
        flow, link = flow[order], link[order]
        shared = self.resource_of_link[link]
        drawn = np.concatenate([link, shared[shared >= 0]])
        owner_flow = np.concatenate([flow, flow[shared >= 0]])
        # A flow that goes through one resource twice draws on it twice: both entries stay.
        final = np.argsort(owner_flow, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner_flow, minlength=len(one)))])
        latency = np.bincount(flow, weights=self.latencies_s[link], minlength=len(one))
        ends = offsets.astype(np.int64)
        return Flows(one, two, owner, ends, drawn[final], latency.astype(np.float64))

    def _check_ranks(self, sources: Ints, targets: Ints) -> None:
        both = np.concatenate([sources, targets])
        bad = both[(both < 0) | (both >= self.devices)]
        if len(bad):
            raise ClusterError(
                f"no rank {int(bad[0])}",
                f"machine {self.name!r} of {self.devices} devices",
                f"use ranks 0 to {self.devices - 1}",
            )
        same = sources[sources == targets]
        if len(same):
            raise ClusterError(
                f"rank {int(same[0])} sends to itself", "the flows", "name two different ranks"
            )

    def _steps(self, sources: Ints, targets: Ints) -> tuple[Ints, Ints, Ints]:
        """Links on the way of each flow: flow, position on the way, link; in no order."""
        inside = self.server_of_rank[sources] == self.server_of_rank[targets]
        here = np.flatnonzero(inside)
        parts = [self._inside(here, sources[here], targets[here])]
        left = np.flatnonzero(~inside)
        for fabric in self.fabrics:
            if not len(left):
                break
            one, two = (self.server_of_rank[ends[left]] for ends in (sources, targets))
            joined = one // fabric.domain == two // fabric.domain
            here = left[joined]
            parts += self._across(fabric, here, sources[here], targets[here])
            left = left[~joined]
        if len(left):
            ends = self.server_of_rank[[sources[left[0]], targets[left[0]]]]
            raise ClusterError(
                f"nothing joins servers {int(ends[0])} and {int(ends[1])}",
                f"machine {self.name!r}",
                "give the cluster a fabric that joins them",
            )
        flow, step, link = (np.concatenate(column) for column in zip(*parts, strict=True))
        return flow, step, link

    def _inside(self, flows: Ints, sources: Ints, targets: Ints) -> tuple[Ints, Ints, Ints]:
        """Ways between two devices of one server; all arguments have shape (flows,)."""
        server = self.server_of_rank[sources]
        one, two = self.local_of_rank[sources], self.local_of_rank[targets]
        parts = [(flows[:0], flows[:0], flows[:0])]
        for index, kind in enumerate(self.kinds):
            here = np.flatnonzero(self.kind_of_server[server] == index)
            offsets, local = kind.routes.between(one[here], two[here])
            row, step = ragged(offsets)
            base = self.link_base[server[here]][row]
            parts.append((flows[here][row], step - _BEFORE_PORT, local + base))
        flow, step, link = (np.concatenate(column) for column in zip(*parts, strict=True))
        return flow, step, link

    def _across(
        self, fabric: Fabric, flows: Ints, sources: Ints, targets: Ints
    ) -> list[tuple[Ints, Ints, Ints]]:
        """Ways between devices of two servers: to the port, over leaf and spine, from the port.

        Without a spine a rail is reached from the device of the own server that is on it.
        """
        port_two, down = self._port(fabric, targets, outwards=False)
        leaf_two = fabric.leaf_of_port[port_two]
        senders = sources.copy()
        first, _ = self._port(fabric, sources, outwards=True)
        leaf_one = fabric.leaf_of_port[first]
        off = (leaf_one != leaf_two) & (fabric.uplink_of_leaf[leaf_one] < 0)
        senders[off] += self.local_of_rank[targets[off]] - self.local_of_rank[sources[off]]
        moved = senders != sources
        parts = [self._inside(flows[moved], sources[moved], senders[moved])]
        port_one, up = self._port(fabric, senders, outwards=True)
        into = fabric.first_link + 2 * port_one
        out = fabric.first_link + 2 * port_two + 1
        over = np.flatnonzero(fabric.leaf_of_port[port_one] != leaf_two)
        rise = fabric.uplink_of_leaf[fabric.leaf_of_port[port_one[over]]]
        fall = fabric.uplink_of_leaf[leaf_two[over]] + 1
        self._check_spine(fabric, rise)
        steps = [(flows, 0, up), (flows, 1, into), (flows, 4, out), (flows, 5, down)]
        steps += [(flows[over], 2, rise), (flows[over], 3, fall)]
        parts += [(flow, np.full(len(flow), at, np.int64), link) for flow, at, link in steps]
        return parts

    def _check_spine(self, fabric: Fabric, rise: Ints) -> None:
        if len(rise) and rise.min() < 0:
            raise ClusterError(
                f"fabric {fabric.name!r} has no spine that joins its leaves",
                f"machine {self.name!r}",
                "make it rail_optimized, or give all servers the same rails",
            )

    def _port(self, fabric: Fabric, ranks: Ints, *, outwards: bool) -> tuple[Ints, Ints]:
        """Port of each rank in the fabric, and the link between the device and the port."""
        server, local = self.server_of_rank[ranks], self.local_of_rank[ranks]
        port, link = np.empty_like(ranks), np.empty_like(ranks)
        for index, kind in enumerate(self.kinds):
            here = self.kind_of_server[server] == index
            nodes = kind.nics[fabric.nics[index]]
            node = nodes[local[here]]
            port[here] = fabric.port_base[server[here]] + node - nodes.min()
            attached = kind.routes.attached(local[here], node, outwards=outwards)
            link[here] = self.link_base[server[here]] + attached
        return port, link


def _pairs(group: Sequence[int], pattern: Pattern) -> Ints:
    """Sender and receiver of every flow of one group, shape (flows, 2)."""
    ranks = np.asarray(group, np.int64)
    count = len(ranks)
    if count < 2:
        return np.empty((0, 2), np.int64)
    if pattern is Pattern.ALL_PAIRS:
        one, two = np.nonzero(~np.eye(count, dtype=bool))
        return np.stack([ranks[one], ranks[two]], axis=1)
    onwards = np.stack([ranks, np.roll(ranks, -1)], axis=1)
    both = pattern is Pattern.BOTH_WAYS and count > 2
    return np.concatenate([onwards, onwards[:, ::-1]]) if both else onwards
