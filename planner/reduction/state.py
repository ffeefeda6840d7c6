"""A network while it shrinks, and how an answer to it becomes one of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.reduction.network import (
    BoolArray,
    FloatArray,
    IntArray,
    Network,
    offsets,
    runs,
    summed,
)

BATCH = 1_000_000
"""Numbers that are worked on in one go; they stay in the cache."""
Marks: TypeAlias = NDArray[np.uint64]
NO_MARKS: Marks = np.zeros(0, dtype=np.uint64)
_PLACE, _ROW, _FIRST, _SECOND, _SPAN = (
    np.array(
        [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F,
         0xE7037ED1A0B428DB], dtype=np.uint64,
    )
)  # fmt: skip
"""Odd numbers without a pattern in their bits."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What is left of a network.

    A node of the whole follows a node that is left: `chosen` says which of its candidates goes with
    each candidate of that one.
    """

    network: Network
    leader: IntArray
    """For each node of the whole the node that it follows, shape (N,)."""
    chosen_first: IntArray
    """Where the candidates of each node of the whole start in `chosen`."""
    chosen: IntArray
    """For each node of the whole, by candidate of its leader, its own candidate."""

    def expanded(self, choice: IntArray) -> IntArray:
        """The choice of the whole that a choice of what is left means."""
        found: IntArray = self.chosen[self.chosen_first[:-1] + choice[self.leader]]
        return found


def untouched(network: Network) -> State:
    """The state in which nothing was done."""
    sizes = network.sizes
    return State(
        network, np.arange(network.nodes), network.first, runs(np.zeros_like(sizes), sizes)
    )


def without_candidates(state: State, kept: BoolArray) -> State:
    """The state without some candidates.

    Args:
        state: the state.
        kept: for each candidate of its network whether it stays; of each node at least one does.
    """
    net = state.network
    # Few matrices lose anything here: a third of the time of the general way.
    small = _without(net, kept, net.edge_cost[_pairs_kept(net, kept)])
    whole_kept = kept[runs(net.first[state.leader], net.sizes[state.leader])]
    return State(
        network=small,
        leader=state.leader,
        chosen_first=offsets(small.sizes[state.leader]),
        chosen=state.chosen[whole_kept],
    )


def _without(net: Network, kept: BoolArray, edge_cost: FloatArray) -> Network:
    """The network without some candidates, given the costs of the pairs that stay."""
    sizes = np.add.reduceat(kept, net.first[:-1], dtype=np.int64) if net.nodes else net.sizes
    u, v = net.edges[:, 0], net.edges[:, 1]
    return replace(
        net,
        first=offsets(sizes),
        cost=net.cost[kept],
        edge_first=offsets(sizes[u] * sizes[v]),
        edge_cost=edge_cost,
        span_first=offsets(sizes[net.span_node]),
        usage=net.usage[kept[runs(net.first[net.span_node], net.sizes[net.span_node])]],
    )


def _pairs_kept(net: Network, kept: BoolArray) -> BoolArray:
    """For each entry of the matrices whether both of its candidates are kept."""
    whole = np.logical_and.reduceat(kept, net.first[:-1])
    length = np.diff(net.edge_first)
    cut = ~whole[net.edges].all(axis=1)
    u, v = net.edges[cut].T
    ku, kv = net.sizes[u], net.sizes[v]
    rows = np.repeat(kept[runs(net.first[u], ku)], np.repeat(kv, ku))
    columns = kept[runs(np.repeat(net.first[v], ku), np.repeat(kv, ku))]
    pairs = np.ones(len(net.edge_cost), dtype=bool)
    pairs[np.repeat(cut, length)] = rows & columns
    return pairs


@dataclass(frozen=True, slots=True, eq=False)
class Narrowed:
    """A network with fewer candidates."""

    network: Network
    """Its edges do not share matrices."""
    original: IntArray
    """For each of its candidates the number that it had among those of its node."""

    def widened(self, choice: IntArray) -> IntArray:
        """The choice of the whole network that a choice of this one means."""
        found: IntArray = self.original[self.network.first[:-1] + choice]
        return found

    def narrowed(self, choice: IntArray, kept: BoolArray, whole: Network) -> IntArray:
        """The choice here that a choice of the whole means, all of whose candidates were kept."""
        before = np.concatenate([[0], np.cumsum(kept)])
        starts = whole.first[:-1]
        found: IntArray = before[starts + choice] - before[starts]
        return found


def without(net: Network, kept: BoolArray) -> Narrowed:
    """The network without some candidates.

    Args:
        net: the network; edges may share matrices.
        kept: for each candidate whether it stays; of each node at least one does.
    """
    size = np.add.reduceat(kept, net.first[:-1], dtype=np.int64)
    first = offsets(size)
    original = np.flatnonzero(kept) - np.repeat(net.first[:-1], size)
    u, v = net.edges[:, 0], net.edges[:, 1]
    pair_u, pair_v = u[net.pair_edge], v[net.pair_edge]
    edge_cost = net.edge_cost[_entries(net, first, original, u, v, net.edge_first[:-1])]
    narrow = replace(
        _without(net, kept, edge_cost),
        pair_first=offsets(size[pair_u] * size[pair_v])[:-1],
        pair_usage=net.pair_usage[_entries(net, first, original, pair_u, pair_v, net.pair_first)],
    )
    return Narrowed(narrow, original)


def _entries(
    net: Network, first: IntArray, original: IntArray, u: IntArray, v: IntArray, starts: IntArray
) -> IntArray:
    """Where the entries that stay of matrices over nodes `u` and `v` are now."""
    size = np.diff(first)
    rows, columns = size[u], size[v]
    row = original[runs(first[u], rows)] * np.repeat(net.sizes[v], rows) + np.repeat(starts, rows)
    per_row = np.repeat(columns, rows)
    column = original[runs(np.repeat(first[v], rows), per_row)]
    entries: IntArray = np.repeat(row, per_row) + column
    return entries


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Ends of edges, node by node."""

    first: IntArray
    """Where those of each node start, shape (N + 1,)."""
    edge: IntArray
    end: IntArray
    """0 where the candidates of the node are the rows of the edge's matrix, 1 for columns."""
    partners: IntArray
    """Candidates at the other end."""
    partners_of_node: IntArray
    """Candidates at the other ends of all edges of each node, shape (N,)."""

    def of(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """All sides of some nodes: for each the place of its node in `nodes`, and its number."""
        degree = self.first[nodes + 1] - self.first[nodes]
        return np.repeat(np.arange(len(nodes)), degree), runs(self.first[nodes], degree)


def sides_of(net: Network) -> Sides:
    """The sides of a network's edges."""
    ends = net.edges.T.ravel()
    order = np.argsort(ends, kind="stable")
    edge, end = order % max(len(net.edges), 1), order // max(len(net.edges), 1)
    partners = net.sizes[net.edges[edge, 1 - end]]
    total = summed(ends[order], partners.astype(np.float64), net.nodes)
    return Sides(
        first=offsets(np.bincount(ends, minlength=net.nodes)),
        edge=edge,
        end=end,
        partners=partners,
        partners_of_node=total.astype(np.int64),
    )


def batches(weight: IntArray, limit: int) -> Iterator[slice]:
    """Stretches whose weights add up to no more than the limit, or of one that is heavier."""
    total = offsets(weight)
    start = 0
    while start < len(weight):
        end = int(np.searchsorted(total, total[start] + limit, side="right")) - 1
        end = max(end, start + 1)
        yield slice(start, end)
        start = end


def tables_of(
    net: Network, sides: Sides, size: IntArray, side: IntArray, squares: int = 0
) -> Iterator[tuple[IntArray, int, FloatArray]]:
    """The matrices of many sides, those of one shape together, some at a time.

    Args:
        net: the network.
        sides: the ends of its edges.
        size: candidates of the node of each side.
        side: numbers of the sides.
        squares: how many tables over pairs of candidates of a node will be needed for each.

    Yields:
        Places in `side`, ascending; candidates K of their nodes; costs by candidate and partner,
        shape (places, K, partners).
    """
    kinds = np.stack([size, sides.partners[side], sides.end[side]], axis=1)
    shapes, shape_of = np.unique(kinds, axis=0, return_inverse=True)
    order = np.argsort(shape_of, kind="stable")
    starts = offsets(np.bincount(shape_of, minlength=len(shapes)))
    for shape, (own, partners, end) in enumerate(shapes.tolist()):
        members = order[starts[shape] : starts[shape + 1]]
        weight = own * (squares * own + 3 * partners)
        for batch in batches(np.full(len(members), weight), BATCH):
            here = members[batch]
            first = net.edge_first[sides.edge[side[here]]]
            found = net.edge_cost[first[:, None] + np.arange(own * partners)]
            rows = found.reshape(-1, partners, own) if end else found.reshape(-1, own, partners)
            yield here, own, rows.transpose(0, 2, 1) if end else rows


def marks_of(net: Network) -> Marks:
    """The mark of every node, shape (N,): it tells whether anything around the node changed.

    Two nodes of one mark have the same costs, edges and memory, but for a chance of one in 2**64.
    Whoever goes by marks may then miss something to reduce, and reduces nothing that must stay.
    """
    marks = _hashed_runs(net.cost, net.first)
    u, v = net.edges[:, 0], net.edges[:, 1]
    ku, kv = net.sizes[u], net.sizes[v]
    rows = _hashed_runs(net.edge_cost, offsets(np.repeat(kv, ku)))
    edges = _stirred(_hashed_runs(rows, offsets(ku)))
    np.add.at(marks, u, _stirred(edges * _FIRST))
    np.add.at(marks, v, _stirred(edges * _SECOND))
    np.add.at(marks, net.span_node, _stirred(_hashed_runs(net.usage, net.span_first) * _SPAN))
    return marks


def marks_of_surroundings(net: Network, sides: Sides) -> Marks:
    """A number of every node for its costs and neighbours, shape (N,)."""
    marks = _hashed_runs(net.cost, net.first)
    node = np.repeat(np.arange(net.nodes), np.diff(sides.first))
    other = net.edges[sides.edge, 1 - sides.end].astype(np.uint64)
    np.add.at(marks, node, _stirred((other + np.uint64(1)) * _SPAN))
    return marks


def _hashed_runs(values: FloatArray | Marks, first: IntArray) -> Marks:
    """One number for each run of values, by their bits and places."""
    lengths = np.diff(first)
    if not len(lengths):
        return NO_MARKS
    place = runs(np.zeros_like(lengths), lengths).astype(np.uint64)
    # Zeros count by their places, so that runs of zeros of different lengths differ.
    parts = (values.view(np.uint64) + _ROW) * (_PLACE * (place + place + np.uint64(1)))
    return np.asarray(np.add.reduceat(parts, first[:-1]), dtype=np.uint64)


def _stirred(values: Marks) -> Marks:
    """The numbers with their high bits in the low ones, so that sums of products differ."""
    mixed: Marks = (values ^ (values >> np.uint64(32))) * _ROW
    mixed ^= mixed >> np.uint64(29)
    return mixed
