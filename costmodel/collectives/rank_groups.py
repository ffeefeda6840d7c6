"""Any set of ranks: the links that it uses, and how fast it can pass things round."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives.curves import FloatArray
from topology.link_graph import Flows, LinkGraph, Pattern

__all__ = ["ring_bandwidth"]

_MOST_PACKED = 8
"""Ranks up to which all rings are tried: 5,040 of them."""


def ring_bandwidth(graph: LinkGraph, ranks: Iterable[int], *, nominal: bool = False) -> float:
    """Bytes per second that rings through all ranks carry together.

    As many rings as fit into the links: the largest fractional packing of all orders of up to 8
    ranks; of more ranks one ring in the order given. Rings are of the widest kind of link alone
    if there are any, else of all. Where the members have one port each, this is the port.

    Args:
        graph: the machine.
        ranks: at least two.
        nominal: with the rates that makers state.
    """
    members = tuple(ranks)
    capacities = graph.capacities_bytes_per_s
    if nominal:
        capacities = _nominal(graph)
    if len(members) > _MOST_PACKED:
        flows = graph.concurrent_flows([members])
        load = np.bincount(flows.indices, minlength=len(capacities))
        drawn = load > 0
        return float((capacities[drawn] / load[drawn]).min())
    flows = graph.concurrent_flows([members], Pattern.ALL_PAIRS)
    pairs = {ends: flows.of(f) for f, ends in enumerate(_ends(flows))}
    wide = _widest_alone(graph, pairs, capacities)
    return _packed(members, wide, capacities) or _packed(members, pairs, capacities)


_Drawn: TypeAlias = Mapping[tuple[int, int], NDArray[np.int64]]


def _widest_alone(graph: LinkGraph, drawn: _Drawn, capacities: FloatArray) -> _Drawn:
    """The pairs that are joined by links of the same kind as the widest link, and no others."""
    links = {int(i) for indices in drawn.values() for i in indices if i < graph.links}
    widest = _kind(graph, max(sorted(links), key=lambda index: float(capacities[index])))
    return {
        ends: indices
        for ends, indices in drawn.items()
        if all(_kind(graph, int(index)) == widest for index in indices if index < graph.links)
    }


def _packed(members: Sequence[int], drawn: _Drawn, capacities: FloatArray) -> float:
    """Max sum x_r over all rings r, with sum over the rings through a capacity within it."""
    from scipy.optimize import linprog  # noqa: PLC0415  seldom needed, slow to import
    from scipy.sparse import csr_array  # noqa: PLC0415

    first, *rest = members
    ways = (itertools.pairwise((first, *order, first)) for order in itertools.permutations(rest))
    closed = (tuple(way) for way in ways)
    rings = [[drawn[ends] for ends in way] for way in closed if all(e in drawn for e in way)]
    if not rings:
        return 0.0
    row = np.concatenate([np.concatenate(ring) for ring in rings])
    lengths = [sum(map(len, ring)) for ring in rings]
    column, count = np.repeat(np.arange(len(rings)), lengths), len(rings)
    used, place = np.unique(row, return_inverse=True)
    scale = float(capacities[used].max())
    matrix = csr_array((np.ones(len(row)), (place, column)), shape=(len(used), count))
    bounds = (capacities[used] / scale).tolist()
    found = linprog([-1.0] * count, A_ub=matrix, b_ub=bounds, method="highs")  # type: ignore[call-overload]  # sparse matrices are taken, the stubs do not know
    return float(-found.fun * scale)


def _ends(flows: Flows) -> list[tuple[int, int]]:
    return list(zip(flows.sources.tolist(), flows.targets.tolist(), strict=True))


def _nominal(graph: LinkGraph) -> FloatArray:
    """Capacities at the rates that makers state; shared resources have no other."""
    out = graph.capacities_bytes_per_s.copy()
    for server, base in enumerate(graph.link_base.tolist()):
        links = graph.kinds[int(graph.kind_of_server[server])].links
        stated = [link.nominal_bandwidth_bytes_per_s for link in links]
        out[base : base + len(links)] = stated
    return out


def _kind(graph: LinkGraph, index: int) -> str:
    """Kind of one link; links between servers are those of the fabric."""
    server = int(np.searchsorted(graph.link_base, index, side="right")) - 1
    links = graph.kinds[int(graph.kind_of_server[server])].links
    place = index - int(graph.link_base[server])
    return links[place].kind if place < len(links) else "network"
