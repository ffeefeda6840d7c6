"""Nodes that follow another one: where each candidate of a node goes with exactly one of its
neighbour, the neighbour is no decision.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.network import BoolArray, FloatArray, IntArray, Network, offsets, runs, summed
from planner.reduction.edges import merged_edges
from planner.reduction.forbidden import Allowed, allowed_pairs
from planner.reduction.forest import Forest, composed, forest_of
from planner.reduction.state import State


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
    one that does not follow it.
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
