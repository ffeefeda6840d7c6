"""Nodes without memory and with one neighbour or none: they choose what is cheapest for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.network import BoolArray, IntArray, Network, offsets
from planner.reduction.followers import folded
from planner.reduction.forest import forest_of
from planner.reduction.sides import Sides, sides_of, tables_of
from planner.reduction.state import State


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
