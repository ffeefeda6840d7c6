"""Nodes without memory that are alike: same costs, same edges to the same neighbours.

Whatever the neighbours choose, what is best for one is best for the other, so that the later one
follows. With memory that is not so: of two alike one may have to take what needs less.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from planner.network import IntArray, Network, runs
from planner.reduction.followers import folded
from planner.reduction.forest import forest_of
from planner.reduction.marks import marks_of_surroundings
from planner.reduction.sides import Sides, sides_of
from planner.reduction.state import State


def without_twins(state: State) -> State:
    """The state in which of such nodes the first is left."""
    net = state.network
    sides = sides_of(net)
    leader = np.arange(net.nodes)
    for node, first in _pairs(net, sides, _likely(net, sides)):
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


def _pairs(net: Network, sides: Sides, nodes: IntArray) -> Iterable[tuple[int, int]]:
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
