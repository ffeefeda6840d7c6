"""Traffic that shares links: max-min fair rates, and collectives of several groups at once.

Every directed link, port, NIC and shared resource has a capacity. All flows grow together until
a capacity is full; those that draw on it stay, the others go on. Where no two flows share
anything, this gives each collective the time of its closed form.

Source: Bertsekas and Gallager, "Data Networks", 2nd edition, 1992, section 6.5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives.curves import FloatArray
from costmodel.collectives.kinds import Collective
from topology.errors import ClusterError
from topology.link_graph import Flows, LinkGraph, Pattern

__all__ = ["GroupTraffic", "concurrent_time_s", "fair_rates", "flow_rates"]

_FULL = 1e-9
"""A capacity with less of it left is full."""


def fair_rates(
    capacities: FloatArray, offsets: NDArray[np.int64], indices: NDArray[np.int64]
) -> FloatArray:
    """Bytes per second of every flow, shape (flows,).

    Args:
        capacities: bytes per second, shape (capacities,).
        offsets: flow f draws on `indices[offsets[f] : offsets[f + 1]]`, shape (flows + 1,); a
            flow that draws on one capacity twice takes twice its rate of it.
        indices: positions in `capacities`; every flow has at least one.

    Raises:
        ClusterError: a flow draws on nothing, and so would never be full.
    """
    flows = len(offsets) - 1
    owner = np.repeat(np.arange(flows), np.diff(offsets))
    if flows and not np.diff(offsets).all():
        raise ClusterError(
            "a flow that draws on no link", "the flows", "leave out messages to oneself"
        )
    used, place = np.unique(indices, return_inverse=True)
    whole = capacities[used]
    left, rates = whole.copy(), np.zeros(flows)
    growing = np.ones(flows, dtype=bool)
    while growing.any():
        load = np.bincount(place, growing[owner].astype(np.float64), len(used))
        room = np.divide(left, load, out=np.full(len(used), np.inf), where=load > 0)
        step = room.min()
        rates[growing] += step
        left -= step * load
        full = (load > 0) & (left <= _FULL * whole)
        growing[owner[full[place]]] = False
    return rates


def flow_rates(graph: LinkGraph, flows: Flows) -> FloatArray:
    """Fair rates of flows over the links of a machine, shape (flows,)."""
    return fair_rates(graph.capacities_bytes_per_s, flows.offsets, flows.indices)


@dataclass(frozen=True, slots=True)
class GroupTraffic:
    """A group at work."""

    ranks: tuple[int, ...]
    """In the order of the ring; at least 2."""

    kind: Collective
    nbytes: float
    """As `Collective` counts them."""

    algorithm: str = "ring"
    """`ring`: to the next one at every step; `mesh`: to all others at once."""


def concurrent_time_s(graph: LinkGraph, groups: Sequence[GroupTraffic]) -> FloatArray:
    """Seconds of collectives that all start together and run at fair rates, shape (groups,).

    Rates are those with all groups at work: a group that ends early leaves its part unused.
    """
    parts = [
        graph.concurrent_flows(
            [group.ranks], Pattern.ALL_PAIRS if group.algorithm == "mesh" else Pattern.RING
        )
        for group in groups
    ]
    offsets, indices = [np.zeros(1, np.int64)], []
    for part in parts:
        offsets.append(part.offsets[1:] + offsets[-1][-1])
        indices.append(part.indices)
    rates = fair_rates(
        graph.capacities_bytes_per_s,
        np.concatenate(offsets),
        np.concatenate([np.empty(0, np.int64), *indices]),
    )
    times, first = [], 0
    for group, part in zip(groups, parts, strict=True):
        own = rates[first : first + len(part)]
        first += len(part)
        steps, share = _work(group)
        times.append(steps * part.latencies_s.max() + share * group.nbytes / own.min())
    return np.array(times)


def _work(group: GroupTraffic) -> tuple[int, float]:
    """Steps one after the other, and the share of the bytes that each flow carries in all.

    Source: HCCL algorithm guide, Ring and Mesh.
    """
    p = len(group.ranks)
    mesh = group.algorithm == "mesh"
    rounds = 2 if group.kind is Collective.ALL_REDUCE else 1
    if mesh and group.kind in {Collective.BROADCAST, Collective.REDUCE}:
        rounds = 2
    if group.algorithm not in {"ring", "mesh"}:
        raise ClusterError(
            f"no flows of algorithm {group.algorithm!r}", "a group at work", "use ring or mesh"
        )
    if mesh:
        return rounds, rounds / p
    if group.kind is Collective.ALL_TO_ALL:
        # Each piece travels p / 2 links on average.
        return p - 1, (p - 1) / 2
    if group.kind in {Collective.BROADCAST, Collective.REDUCE, Collective.POINT_TO_POINT}:
        return p - 1, float(p - 1)
    return rounds * (p - 1), rounds * (p - 1) / p
