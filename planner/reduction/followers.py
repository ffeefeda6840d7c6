"""Nodes that follow another one and become part of it, for one of three reasons.

- Each candidate of the node goes with exactly one of its neighbour: it is no decision.
- It has no memory and one neighbour or none: it chooses what is cheapest for that.
- It has no memory and is like another node: same costs, same edges to the same neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from planner.reduction.edges import Allowed, allowed_pairs, merged_edges
from planner.reduction.network import (
    BoolArray,
    FloatArray,
    IntArray,
    Network,
    offsets,
    runs,
    summed,
)
from planner.reduction.state import Sides, State, marks_of_surroundings, sides_of, tables_of


def without_followers(state: State) -> State:
    """The state in which every node that follows another one is part of it."""
    net = state.network
    pairs = allowed_pairs(net)
    forward = np.logical_and.reduceat(pairs.per_row == 1, pairs.row_first[:-1])
    backward = np.logical_and.reduceat(pairs.per_column == 1, pairs.column_first[:-1])
    if not (forward.any() or backward.any()):
        return state
    return folded(state, _forest(net, pairs, forward, backward))


def folded(state: State, forest: Forest) -> State:
    """The state in which nodes are part of those that they follow, at once or through others."""
    return _folded(state, composed(forest, state.network.sizes))


def _forest(net: Network, pairs: Allowed, forward: BoolArray, backward: BoolArray) -> Forest:
    """Leaders and maps by the edges that allow one partner alone."""
    leader, edge_of = _leaders(net, pairs.edges, forward, backward)
    followers = np.flatnonzero(edge_of >= 0)
    edge, leads = edge_of[followers], leader[followers]
    ends = net.edges[pairs.edges[edge]]
    entries = runs(pairs.first[edge], pairs.first[edge + 1] - pairs.first[edge])
    lengths = net.sizes[ends].prod(axis=1)
    # One pair for each candidate of the leader, which may be the row or the column.
    found = np.flatnonzero(pairs.allowed[entries])
    size = net.sizes[leads]
    owner = np.repeat(np.arange(len(followers)), size)
    local = found - offsets(lengths)[:-1][owner]
    row, column = np.divmod(local, net.sizes[ends[owner, 1]])
    is_row = leads[owner] == ends[owner, 0]
    maps = np.empty(len(found), dtype=np.int64)
    place = offsets(size)[:-1][owner] + np.where(is_row, row, column)
    maps[place] = np.where(is_row, column, row)
    return forest_of(net.sizes, leader, followers, maps)


def _leaders(
    net: Network, edges: IntArray, forward: BoolArray, backward: BoolArray
) -> tuple[IntArray, IntArray]:
    """For each node the one that it follows directly, itself if none, and the place in `edges` of
    the edge between them.

    No node follows itself through others: a node gets a leader only while it has none, and only
    one that does not follow it. (By hand: 1.2 s for 100,000 nodes, `networkx.utils.UnionFind`
    takes 3.0 s.)
    """
    leader = list(range(net.nodes))
    edge_of = [-1] * net.nodes
    root = list(range(net.nodes))

    def find(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    either = np.flatnonzero(forward | backward)
    pairs, ahead, back = net.edges[edges[either]].tolist(), forward.tolist(), backward.tolist()
    for place, (u, v) in zip(either.tolist(), pairs, strict=True):
        for here, there, flag in ((u, v, ahead[place]), (v, u, back[place])):
            if flag and leader[there] == there and find(here) != there:
                leader[there], edge_of[there] = here, place
                root[there] = find(here)
                break
    return np.array(leader), np.array(edge_of)


def _folded(state: State, forest: Forest) -> State:
    net = state.network
    stay = forest.leader == np.arange(net.nodes)
    number = np.cumsum(stay) - 1
    top = number[forest.leader]
    sizes = net.sizes[stay]
    first = offsets(sizes)
    own = net.cost[np.repeat(net.first[:-1], sizes[top]) + forest.follows]
    cost = summed(runs(first[top], sizes[top]), own, int(first[-1]))
    spans = forest.first[net.span_node], sizes[top[net.span_node]]
    usage = net.usage[np.repeat(net.span_first[:-1], spans[1]) + forest.follows[runs(*spans)]]
    smaller = replace(
        net,
        first=first,
        cost=cost,
        edges=np.zeros((0, 2), dtype=np.int64),
        edge_first=np.zeros(1, dtype=np.int64),
        edge_cost=np.zeros(0),
        span_node=top[net.span_node],
        span_first=offsets(spans[1]),
        usage=usage,
    )
    leader = top[state.leader]
    parts = runs(forest.first[state.leader], sizes[leader])
    chosen = state.chosen[np.repeat(state.chosen_first[:-1], sizes[leader]) + forest.follows[parts]]
    return State(_with_edges(net, smaller, forest, top), leader, offsets(sizes[leader]), chosen)


def _with_edges(net: Network, smaller: Network, forest: Forest, top: IntArray) -> Network:
    """The folded network with the edges between the leaders; those inside one are its own cost."""
    u, v = net.edges[:, 0], net.edges[:, 1]
    inside = top[u] == top[v]
    smaller = replace(smaller, cost=_with_inside(net, smaller, forest, top, inside))
    follows = forest.leader != np.arange(net.nodes)
    moved = ~inside & (follows[u] | follows[v])
    still = ~inside & ~moved
    length = np.diff(net.edge_first)
    pairs, cost = top[net.edges[still]], net.edge_cost[np.repeat(still, length)]
    if not moved.any():
        return replace(smaller, edges=pairs, edge_first=offsets(length[still]), edge_cost=cost)
    a, b = u[moved], v[moved]
    rows, columns = smaller.sizes[top[a]], smaller.sizes[top[b]]
    row = forest.follows[runs(forest.first[a], rows)]
    row_start = np.repeat(net.edge_first[:-1][moved], rows) + row * np.repeat(net.sizes[b], rows)
    per_row = np.repeat(columns, rows)
    column = forest.follows[runs(np.repeat(forest.first[b], rows), per_row)]
    entries = np.repeat(row_start, per_row) + column
    return merged_edges(
        smaller,
        np.concatenate([pairs, top[net.edges[moved]]]),
        np.concatenate([cost, net.edge_cost[entries]]),
    )


def _with_inside(
    net: Network, smaller: Network, forest: Forest, top: IntArray, inside: BoolArray
) -> FloatArray:
    """Costs of the leaders' candidates and of the edges inside them."""
    u, v = net.edges[inside].T
    leader = top[u]
    size = smaller.sizes[leader]
    row, column = (forest.follows[runs(forest.first[node], size)] for node in (u, v))
    start = np.repeat(net.edge_first[:-1][inside], size)
    found = net.edge_cost[start + row * np.repeat(net.sizes[v], size) + column]
    place = runs(smaller.first[leader], size)
    return smaller.cost + summed(place, found, len(smaller.cost))


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Every node's leader, itself if none, and its candidate for each one of the leader."""

    leader: IntArray
    first: IntArray
    """Where the candidates of each node start in `follows`."""
    follows: IntArray


def forest_of(sizes: IntArray, leader: IntArray, followers: IntArray, maps: IntArray) -> Forest:
    """The forest in which some nodes follow others.

    Args:
        sizes: candidates of each node.
        leader: for each node the one that it follows, itself if none.
        followers: nodes that follow another one, ascending.
        maps: for each of them its candidate by that of its leader, one after the other.
    """
    lengths = sizes[leader]
    follows = runs(np.zeros_like(lengths), lengths)
    is_follower = np.zeros(len(sizes), dtype=bool)
    is_follower[followers] = True
    follows[np.repeat(is_follower, lengths)] = maps
    return Forest(leader, offsets(lengths), follows)


def composed(forest: Forest, sizes: IntArray) -> Forest:
    """The forest in which leaders follow nobody, their leaders being everybody's.

    Every step doubles how far each node looks up.
    """
    while True:
        above = forest.leader[forest.leader]
        if (above == forest.leader).all():
            return forest
        lengths = sizes[above]
        inner = forest.follows[runs(forest.first[forest.leader], lengths)]
        follows = forest.follows[np.repeat(forest.first[:-1], lengths) + inner]
        forest = Forest(above, offsets(lengths), follows)


def without_leaves(state: State) -> State:
    """The state in which every such node is part of its neighbour, or of any if it has none."""
    net = state.network
    sides = sides_of(net)
    degree = np.diff(sides.first)
    free = np.bincount(net.span_node, minlength=net.nodes) == 0
    leader = np.arange(net.nodes)
    leaves = _with_neighbour(net, sides, free & (degree == 1), leader)
    isolated = _with_anyone(free & (degree == 0), leader)
    followers = np.sort(np.concatenate([leaves, isolated]))
    if not len(followers):
        return state
    size = net.sizes[leader[followers]]
    first = offsets(size)
    maps = np.repeat(_cheapest(net)[followers], size)
    place = np.searchsorted(followers, leaves)
    for members, best in _by_neighbour(net, sides, leaves):
        maps[first[place[members]][:, None] + np.arange(best.shape[1])] = best
    return folded(state, forest_of(net.sizes, leader, followers, maps))


def _with_neighbour(net: Network, sides: Sides, free: BoolArray, leader: IntArray) -> IntArray:
    """Let nodes with one neighbour follow it; of two that are each other's the second stays."""
    leaves = np.flatnonzero(free)
    other = net.edges[sides.edge[sides.first[leaves]]].sum(axis=1) - leaves
    follows = ~free[other] | (other > leaves)
    found: IntArray = leaves[follows]
    leader[found] = other[follows]
    return found


def _with_anyone(free: BoolArray, leader: IntArray) -> IntArray:
    """Let nodes that nothing depends on follow the first node that stays."""
    isolated = np.flatnonzero(free)
    staying = np.flatnonzero((leader == np.arange(len(leader))) & ~free)
    if not len(staying):
        staying, isolated = isolated[:1], isolated[1:]
    leader[isolated] = staying[:1]
    return isolated


def _cheapest(net: Network) -> IntArray:
    """The first of the cheapest candidates of every node by themselves."""
    least = np.minimum.reduceat(net.cost, net.first[:-1]) if net.nodes else net.cost
    found = np.flatnonzero(net.cost == np.repeat(least, net.sizes))
    node = np.repeat(np.arange(net.nodes), net.sizes)[found]
    best: IntArray = found[np.diff(node, prepend=-1) > 0] - net.first[:-1]
    return best


def _by_neighbour(
    net: Network, sides: Sides, leaves: IntArray
) -> Iterator[tuple[IntArray, IntArray]]:
    """Places of some leaves, and for each its best candidate by that of its neighbour."""
    side = sides.first[leaves]
    for members, size, tables in tables_of(net, sides, net.sizes[leaves], side):
        own = net.cost[net.first[leaves[members]][:, None] + np.arange(size)]
        yield members, (tables + own[:, :, None]).argmin(axis=1)


def without_equal_nodes(state: State) -> State:
    """The state in which of such nodes the first is left."""
    net = state.network
    sides = sides_of(net)
    leader = np.arange(net.nodes)
    for node, first in _equal_pairs(net, sides, _likely(net, sides)):
        leader[node] = first
    followers = np.flatnonzero(leader != np.arange(net.nodes))
    if not len(followers):
        return state
    size = net.sizes[followers]
    maps = runs(np.zeros_like(size), size)
    return folded(state, forest_of(net.sizes, leader, followers, maps))


def _likely(net: Network, sides: Sides) -> IntArray:
    """Nodes without memory that have the costs and neighbours of another one, by their marks."""
    free = np.flatnonzero(np.bincount(net.span_node, minlength=net.nodes) == 0)
    marks = marks_of_surroundings(net, sides)[free]
    _, group, count = np.unique(marks, return_inverse=True, return_counts=True)
    return free[count[group] > 1]


def _equal_pairs(net: Network, sides: Sides, nodes: IntArray) -> Iterable[tuple[int, int]]:
    """Each node that is like an earlier one, and the first of these."""
    known: dict[tuple[bytes, ...], int] = {}
    for node in nodes.tolist():
        first = known.setdefault(_all_of(net, sides, node), node)
        if first != node:
            yield node, first


def _all_of(net: Network, sides: Sides, node: int) -> tuple[bytes, ...]:
    """Costs and neighbours of a node, and the matrices of its edges in the neighbours' order."""
    side = slice(sides.first[node], sides.first[node + 1])
    edge, end = sides.edge[side], sides.end[side]
    other = net.edges[edge, 1 - end]
    parts = [net.cost[net.first[node] : net.first[node + 1]], np.sort(other)]
    for place in np.argsort(other).tolist():
        matrix = net.edge_cost[net.edge_first[edge[place]] : net.edge_first[edge[place] + 1]]
        rows = len(parts[0]) if end[place] == 0 else len(matrix) // len(parts[0])
        table = matrix.reshape(rows, -1)
        parts.append(table if end[place] == 0 else table.T)
    return tuple(part.tobytes() for part in parts)
