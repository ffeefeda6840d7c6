"""Edges between the same nodes become one, edges that cost the same everywhere none, and
candidates without an allowed partner across some edge go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.reduction.network import (
    FORBIDDEN,
    BoolArray,
    FloatArray,
    IntArray,
    Network,
    offsets,
    runs,
)
from planner.reduction.state import State, without_candidates

_NEVER = 10 * FORBIDDEN
"""What every forbidden cost becomes, so that sums of them stay of one size."""
_ROUNDING = 1e-9
"""Relative difference of what may be equal."""


def merged_edges(net: Network, pairs: IntArray, edge_cost: FloatArray) -> Network:
    """The network with these edges instead of its own, parallel ones added, smaller node first.

    Args:
        net: the network; its nodes stay.
        pairs: shape (M, 2), different nodes, in any order and any number of times.
        edge_cost: their matrices one after the other, row-major.
    """
    sizes, turned = net.sizes, pairs[:, 0] > pairs[:, 1]
    low = np.where(turned, pairs[:, 1], pairs[:, 0])
    high = np.where(turned, pairs[:, 0], pairs[:, 1])
    keys, group = np.unique(low * net.nodes + high, return_inverse=True)
    u, v = keys // max(net.nodes, 1), keys % max(net.nodes, 1)
    target_first = offsets(sizes[u] * sizes[v])
    # Most matrices are copied as they are; those turned, or with parallel ones, are added up.
    single = np.bincount(group, minlength=len(keys))[group] == 1
    plain = single & ~turned
    length = sizes[low] * sizes[high]
    source = offsets(length)[:-1]
    cost = np.zeros(int(target_first[-1]))
    is_copy = np.zeros(len(keys), dtype=bool)
    is_copy[group[plain]] = True
    ordered = np.flatnonzero(plain)[np.argsort(group[plain], kind="stable")]
    copied = edge_cost[runs(source[ordered], length[ordered])]
    cost[np.repeat(is_copy, np.diff(target_first))] = copied
    others = np.flatnonzero(~plain)
    target = _places(sizes, pairs[others], turned[others], target_first[group[others]])
    np.add.at(cost, target, edge_cost[runs(source[others], length[others])])
    cost[cost >= FORBIDDEN] = _NEVER
    return replace(net, edges=np.stack([u, v], axis=1), edge_first=target_first, edge_cost=cost)


def _places(sizes: IntArray, pairs: IntArray, turned: BoolArray, start: IntArray) -> IntArray:
    """Where each entry goes, matrices with the larger node first being transposed."""
    rows, columns = sizes[pairs[:, 0]], sizes[pairs[:, 1]]
    row_step, column_step = np.where(turned, 1, columns), np.where(turned, rows, 1)
    local_row = runs(np.zeros_like(rows), rows)
    row_start = np.repeat(start, rows) + local_row * np.repeat(row_step, rows)
    per_row = np.repeat(columns, rows)
    local_column = runs(np.zeros_like(per_row), per_row)
    step = np.repeat(np.repeat(column_step, rows), per_row)
    places: IntArray = np.repeat(row_start, per_row) + local_column * step
    return places


def without_sums(net: Network) -> Network:
    """The network with the least of every row and column in the costs of the nodes, and without
    edges that are nothing but a sum of a row's and a column's number.
    """
    plain = np.zeros(len(net.edges), dtype=bool)
    likely = np.flatnonzero(_is_likely_sum(net))
    u, v = net.edges[likely].T
    ku, kv = net.sizes[u], net.sizes[v]
    cost = net.edge_cost[runs(net.edge_first[:-1][likely], ku * kv)]
    per_row = np.repeat(kv, ku)
    if not len(per_row):
        return net
    least = np.minimum.reduceat(cost, offsets(per_row)[:-1])
    left = cost - np.repeat(least, per_row)
    first = left[runs(offsets(ku * kv)[:-1], kv)]
    is_sum = np.logical_and.reduceat(left == first[_columns(ku, kv)], offsets(ku * kv)[:-1])
    plain[likely] = is_sum
    if not is_sum.any():
        return net
    rows, columns = np.repeat(is_sum, ku), np.repeat(is_sum, kv)
    return _moved_to_nodes(net, plain, least[rows], first[columns])


def _is_likely_sum(net: Network) -> BoolArray:
    """Whether the corners of each edge's matrix and its middle are those of a sum, nearly."""
    u, v = net.edges[:, 0], net.edges[:, 1]
    ku, kv = net.sizes[u], net.sizes[v]

    def at(row: IntArray | int, column: IntArray | int) -> FloatArray:
        found: FloatArray = net.edge_cost[net.edge_first[:-1] + row * kv + column]
        return found

    likely = np.ones(len(net.edges), dtype=bool)
    for row in (ku - 1, ku // 2):
        for column in (kv - 1, kv // 2):
            parts = at(row, column), at(0, 0), at(row, 0), at(0, column)
            size = np.max(np.abs(parts), axis=0)
            likely &= np.abs(parts[0] + parts[1] - parts[2] - parts[3]) <= _ROUNDING * size
    return likely


def _columns(ku: IntArray, kv: IntArray) -> IntArray:
    """For every entry its place in the concatenated first rows."""
    start = offsets(kv)[:-1]
    return runs(np.repeat(start, ku), np.repeat(kv, ku))


def _moved_to_nodes(
    net: Network, plain: BoolArray, by_row: FloatArray, by_column: FloatArray
) -> Network:
    """The network without some edges, whose numbers go to their nodes."""
    u, v = net.edges[plain].T
    cost = net.cost.copy()
    np.add.at(cost, runs(net.first[u], net.sizes[u]), by_row)
    np.add.at(cost, runs(net.first[v], net.sizes[v]), by_column)
    stay, length = ~plain, np.diff(net.edge_first)
    return replace(
        net,
        cost=cost,
        edges=net.edges[stay],
        edge_first=offsets(length[stay]),
        edge_cost=net.edge_cost[np.repeat(stay, length)],
    )


class NoAnswerError(ValueError):
    """Nothing can be chosen for some node without something forbidden."""


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """Which pairs are allowed on the edges that forbid some, or that join a node with one candidate
    alone; on all other edges there are several partners for everybody.
    """

    edges: IntArray
    """The edges, ascending; E of them."""
    first: IntArray
    """Where the pairs of each one start in `allowed`, shape (E + 1,)."""
    allowed: BoolArray
    row_first: IntArray
    """Where the rows of each one start in `per_row`."""
    per_row: IntArray
    """Allowed partners of each row."""
    column_first: IntArray
    per_column: IntArray


def allowed_pairs(net: Network) -> Allowed:
    """The allowed pairs of a network."""
    allowed = net.edge_cost < FORBIDDEN
    sizes = net.sizes[net.edges]
    told = (sizes == 1).any(axis=1)
    if not allowed.all():
        told |= ~np.logical_and.reduceat(allowed, net.edge_first[:-1])
    edges = np.flatnonzero(told)
    rows, columns = sizes[edges].T
    pairs = allowed[np.repeat(told, np.diff(net.edge_first))]
    row_of_pair = offsets(np.repeat(columns, rows))
    slot = runs(np.repeat(offsets(columns)[:-1], rows), np.repeat(columns, rows))
    return Allowed(
        edges=edges,
        first=offsets(rows * columns),
        allowed=pairs,
        row_first=offsets(rows),
        per_row=np.add.reduceat(pairs, row_of_pair[:-1], dtype=np.int64),
        column_first=offsets(columns),
        per_column=np.bincount(slot[pairs], minlength=int(columns.sum())),
    )


def without_forbidden(state: State) -> State:
    """The state without candidates that need something forbidden (arc consistency).

    Raises:
        NoAnswerError: a node has none left.
    """
    while True:
        kept = _supported(state.network)
        if kept.all():
            return state
        net = state.network
        left = np.logical_or.reduceat(kept, net.first[:-1])
        if not left.all():
            node = int(np.flatnonzero(~left)[0])
            raise NoAnswerError(f"every candidate of node {node} needs something forbidden")
        state = without_candidates(state, kept)


def _supported(net: Network) -> BoolArray:
    """For each candidate whether it is allowed and has a partner across every edge."""
    kept = net.cost < FORBIDDEN
    pairs = allowed_pairs(net)
    u, v = net.edges[pairs.edges].T
    kept[runs(net.first[u], net.sizes[u])[pairs.per_row == 0]] = False
    kept[runs(net.first[v], net.sizes[v])[pairs.per_column == 0]] = False
    return kept
