"""Nodes that follow another one: where each candidate of a node goes with exactly one of its
neighbour, the neighbour is no decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from planner.network import FORBIDDEN, BoolArray, IntArray, Network, offsets, runs, summed
from planner.reduction.edges import merged_edges
from planner.reduction.forbidden import column_slot
from planner.reduction.state import State

Maps: TypeAlias = dict[int, IntArray]
"""For each follower its candidate by that of its leader."""


def without_followers(state: State) -> State:
    """The state in which every node that follows another one is part of it."""
    net = state.network
    found = _followers(net)
    return state if found is None else folded(state, *found)


def folded(state: State, leader: IntArray, maps: Maps) -> State:
    """The state in which nodes are part of others.

    Args:
        state: the state.
        leader: for each node the one that it follows, which may follow another; itself if none.
        maps: for each follower its candidate by that of its leader.
    """
    return _folded(state, _composed(state.network, leader, maps))


@dataclass(frozen=True, slots=True, eq=False)
class _Forest:
    """Every node's leader, and its candidate for each one of the leader."""

    leader: IntArray
    first: IntArray
    """Where the candidates of each node start in `follows`."""
    follows: IntArray


def _followers(net: Network) -> tuple[IntArray, Maps] | None:
    if not len(net.edges):
        return None
    allowed = net.edge_cost < FORBIDDEN
    u, v = net.edges[:, 0], net.edges[:, 1]
    ku, kv = net.sizes[u], net.sizes[v]
    row_first = offsets(np.repeat(kv, ku))
    per_row = np.add.reduceat(allowed, row_first[:-1])
    per_column = np.bincount(column_slot(ku, kv)[allowed], minlength=int(kv.sum()))
    forward = np.logical_and.reduceat(per_row == 1, offsets(ku)[:-1])
    backward = np.logical_and.reduceat(per_column == 1, offsets(kv)[:-1])
    if not (forward.any() or backward.any()):
        return None
    leader, edge_of = _leaders(net, forward, backward)
    return leader, _maps(net, allowed, edge_of)


def _leaders(net: Network, forward: BoolArray, backward: BoolArray) -> tuple[IntArray, IntArray]:
    """For each node the one that it follows directly, itself if none, and the edge between them.

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

    pairs = net.edges.tolist()
    for edge in np.flatnonzero(forward | backward).tolist():
        u, v = pairs[edge]
        for here, there, flag in ((u, v, forward[edge]), (v, u, backward[edge])):
            if flag and leader[there] == there and find(here) != there:
                leader[there], edge_of[there] = here, edge
                root[there] = find(here)
                break
    return np.array(leader), np.array(edge_of)


def _maps(net: Network, allowed: BoolArray, edge_of: IntArray) -> Maps:
    """For each follower its candidate by that of its leader."""
    out: dict[int, IntArray] = {}
    sizes, first = net.sizes, net.edge_first
    for node in np.flatnonzero(edge_of >= 0).tolist():
        edge = int(edge_of[node])
        u, v = net.edges[edge].tolist()
        matrix = allowed[first[edge] : first[edge + 1]].reshape(sizes[u], sizes[v])
        out[node] = np.argmax(matrix if node == v else matrix.T, axis=1)
    return out


def _composed(net: Network, leader: IntArray, maps: Maps) -> _Forest:
    """Leaders of leaders, and the maps one after the other."""
    parents = leader.tolist()
    ends: dict[int, tuple[int, IntArray]] = {}
    sizes = net.sizes.tolist()

    def end(node: int) -> tuple[int, IntArray]:
        path: list[int] = []
        while node not in ends and parents[node] != node:
            path.append(node)
            node = parents[node]
        found = ends.get(node) or (node, np.arange(sizes[node]))
        for follower in reversed(path):
            found = (found[0], maps[follower][found[1]])
            ends[follower] = found
        return found

    found = [end(node) for node in range(net.nodes)]
    top = np.array([leads for leads, _ in found])
    follows = np.concatenate([each for _, each in found])
    return _Forest(top, offsets(net.sizes[top]), follows)


def _folded(state: State, forest: _Forest) -> State:
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


def _with_edges(net: Network, smaller: Network, forest: _Forest, top: IntArray) -> Network:
    """The folded network with the edges between the leaders; those inside one are its own cost."""
    u, v = net.edges[:, 0], net.edges[:, 1]
    sizes = smaller.sizes
    inside = top[u] == top[v]
    cost = smaller.cost.copy()
    for edge in np.flatnonzero(inside).tolist():
        rows = forest.follows[forest.first[u[edge]] : forest.first[u[edge] + 1]]
        columns = forest.follows[forest.first[v[edge]] : forest.first[v[edge] + 1]]
        start, width = net.edge_first[edge], net.sizes[v[edge]]
        place = smaller.first[top[u[edge]]]
        cost[place : place + len(rows)] += net.edge_cost[start + rows * width + columns]
    outside = np.flatnonzero(~inside)
    a, b = u[outside], v[outside]
    rows, columns = sizes[top[a]], sizes[top[b]]
    row = forest.follows[runs(forest.first[a], rows)]
    row_start = np.repeat(net.edge_first[outside], rows) + row * np.repeat(net.sizes[b], rows)
    column = forest.follows[runs(np.repeat(forest.first[b], rows), np.repeat(columns, rows))]
    entries = np.repeat(row_start, np.repeat(columns, rows)) + column
    pairs = np.stack([top[a], top[b]], axis=1)
    smaller = replace(smaller, cost=cost)
    return merged_edges(smaller, pairs, net.edge_cost[entries])
