"""Neighbourhoods of many nodes at once: an area of the network, in it a forest, and the best of all
choices for that with everything outside as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from planner.reduction.network import FloatArray, IntArray
from planner.solvers.kernels.arrays import Arrays, Tree, swap, swap_if_it_fits
from planner.solvers.kernels.messages import descend

ABSENT: Any = np.int64(-1)
ROUNDS: Any = np.int64(3)
"""Plain numbers would each have the loops that take them compiled once more, for themselves."""


class Space(NamedTuple):
    """Room to work in, kept between moves."""

    seen: IntArray
    """Per node the number of the last move that reached it."""
    place: IntArray
    """Per node its place in the forest of this move, if `seen` says so, else -1."""
    area: IntArray
    parent: IntArray
    """By place in the forest: the edge to the parent, -1 for a root."""
    forest: IntArray
    """By place the node."""
    old: IntArray
    """By place the candidate before the move."""
    backup: IntArray
    """By place in the area the candidate before the move."""
    value: FloatArray
    """By candidate of the network: best cost of the tree below."""


def space_for(net: Arrays) -> Space:
    """Room for moves in a network."""
    nodes = len(net.first) - 1

    def spare() -> IntArray:
        return np.full(nodes, -1, dtype=np.int64)

    return Space(
        seen=spare(), place=spare(), area=spare(), parent=spare(), forest=spare(), old=spare(),
        backup=spare(), value=np.zeros(len(net.cost)),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _other(net: Arrays, edge: int, node: int) -> int:
    return net.high[edge] if net.low[edge] == node else net.low[edge]


@njit(cache=True, nogil=True)
def _grow(net: Arrays, space: Space, stamp: int, start: int, size: int) -> int:
    """A random connected area around a node; returns how many nodes it has."""
    space.area[0] = start
    space.seen[start] = stamp
    space.place[start] = -1
    count, done = 1, 0
    while done < count < size:
        pick = np.random.randint(done, count)
        node = space.area[pick]
        space.area[pick] = space.area[done]
        space.area[done] = node
        done += 1
        for k in range(net.around_first[node], net.around_first[node + 1]):
            edge = net.around[k]
            other = _other(net, edge, node)
            if space.seen[other] != stamp and count < size:
                space.seen[other] = stamp
                space.place[other] = -1
                space.area[count] = other
                count += 1
    return count


@njit(cache=True, nogil=True)
def _stretch(space: Space, stamp: int, nodes: int, size: int) -> int:
    """Nodes that follow each other in the network's order, in random order; returns how many."""
    start = np.random.randint(nodes - size + 1)
    for k in range(size):
        node = start + k
        pick = np.random.randint(k + 1)
        space.area[k] = space.area[pick]
        space.area[pick] = node
        space.seen[node] = stamp
        space.place[node] = -1
    return size


@njit(cache=True, nogil=True)
def _plant(net: Arrays, space: Space, stamp: int, count: int) -> int:
    """A forest in the area: nodes in turn that touch at most one of it. Returns its size."""
    planted = 0
    for k in range(count):
        pick = np.random.randint(k, count) if np.random.random() < 0.3 else k
        node = space.area[pick]
        space.area[pick] = space.area[k]
        space.area[k] = node
        touching, joint = 0, -1
        for j in range(net.around_first[node], net.around_first[node + 1]):
            edge = net.around[j]
            other = _other(net, edge, node)
            if space.seen[other] == stamp and space.place[other] >= 0:
                touching += 1
                joint = edge
        if touching <= 1:
            space.place[node] = planted
            space.forest[planted] = node
            space.parent[planted] = joint
            planted += 1
    return planted


@njit(cache=True, nogil=True)
def _entry(net: Arrays, edge: int, node: int, c: int, d: int) -> float:
    """Cost of an edge: candidate `c` of the node, `d` of the other end."""
    if net.low[edge] == node:
        other = net.high[edge]
        width = net.first[other + 1] - net.first[other]
        return net.edge_cost[net.edge_first[edge] + c * width + d]
    width = net.first[node + 1] - net.first[node]
    return net.edge_cost[net.edge_first[edge] + d * width + c]


@njit(cache=True, nogil=True)
def _outside(
    net: Arrays, space: Space, stamp: int, choice: IntArray, paid: FloatArray, scale: float,
    noise: float, planted: int,
) -> None:  # fmt: skip
    """Costs of the forest's candidates by themselves: own, memory, and edges that leave it."""
    for p in range(planted):
        node = space.forest[p]
        start, size = net.first[node], net.first[node + 1] - net.first[node]
        for c in range(size):
            space.value[start + c] = net.cost[start + c]
        for span in range(net.span_of_first[node], net.span_of_first[node + 1]):
            price = scale * (paid[net.span_end[span]] - paid[net.span_start[span]])
            if price != 0.0:
                for c in range(size):
                    space.value[start + c] += price * net.usage[net.span_first[span] + c]
        if noise > 0.0:
            for c in range(size):
                space.value[start + c] += noise * np.random.random()
        for k in range(net.around_first[node], net.around_first[node + 1]):
            edge = net.around[k]
            other = _other(net, edge, node)
            if not (space.seen[other] == stamp and space.place[other] >= 0):
                for c in range(size):
                    space.value[start + c] += _entry(net, edge, node, c, choice[other])


@njit(cache=True, nogil=True)
def _gather(net: Arrays, space: Space, planted: int) -> None:
    """Hand the best of every tree up to its root."""
    for p in range(planted - 1, -1, -1):
        edge = space.parent[p]
        if edge < 0:
            continue
        node = space.forest[p]
        top = _other(net, edge, node)
        start, size = net.first[node], net.first[node + 1] - net.first[node]
        above, width = net.first[top], net.first[top + 1] - net.first[top]
        for d in range(width):
            best = np.inf
            for c in range(size):
                value = space.value[start + c] + _entry(net, edge, node, c, d)
                if value < best:
                    best = value
            space.value[above + d] += best


@njit(cache=True, nogil=True)
def _choose(
    net: Arrays, space: Space, choice: IntArray, tree: Tree, planted: int, careful: bool
) -> None:
    """Choose from the roots down; where `careful`, the best that fits."""
    for p in range(planted):
        node, edge = space.forest[p], space.parent[p]
        start, size = net.first[node], net.first[node + 1] - net.first[node]
        top = _other(net, edge, node) if edge >= 0 else -1
        tried = 0
        floor = -np.inf
        while tried < size:
            best, least = ABSENT, np.inf
            for c in range(size):
                value = space.value[start + c]
                if edge >= 0:
                    value += _entry(net, edge, node, c, choice[top])
                if value < least and value > floor:
                    best, least = c, value
            if best < 0 or best == choice[node]:
                break
            if not careful:
                swap(net, tree, choice, node, choice[node], best)
                choice[node] = best
                break
            if swap_if_it_fits(net, tree, choice, node, choice[node], best):
                choice[node] = best
                break
            floor = least
            tried += 1


@njit(cache=True, nogil=True)
def _cost_inside(net: Arrays, space: Space, stamp: int, choice: IntArray, count: int) -> float:
    """Cost of the area's nodes and of all edges that touch it."""
    total = 0.0
    for k in range(count):
        node = space.area[k]
        total += net.cost[net.first[node] + choice[node]]
        for j in range(net.around_first[node], net.around_first[node + 1]):
            edge = net.around[j]
            other = _other(net, edge, node)
            if space.seen[other] != stamp or net.low[edge] == node:
                total += _entry(net, edge, node, choice[node], choice[other])
    return total


@njit(cache=True, nogil=True)
def _restore(
    net: Arrays, tree: Tree, choice: IntArray, nodes: IntArray, old: IntArray, count: int
) -> None:
    """Take back what the first of these nodes chose anew."""
    for k in range(count):
        node = nodes[k]
        if choice[node] != old[k]:
            swap(net, tree, choice, node, choice[node], old[k])
            choice[node] = old[k]


@njit(cache=True, nogil=True)
def _pass(
    net: Arrays, space: Space, stamp: int, choice: IntArray, tree: Tree, paid: FloatArray,
    scale: float, noise: float, count: int, greedy: bool,
) -> None:  # fmt: skip
    """One forest of the area, chosen anew; within memory at the end if it was before.

    Where `greedy`, only if the area is cheaper then.
    """
    before = _cost_inside(net, space, stamp, choice, count) if greedy else 0.0
    for k in range(count):
        space.place[space.area[k]] = -1
    planted = _plant(net, space, stamp, count)
    _outside(net, space, stamp, choice, paid, scale, noise, planted)
    _gather(net, space, planted)
    for p in range(planted):
        space.old[p] = choice[space.forest[p]]
    for careful in range(2):
        _choose(net, space, choice, tree, planted, careful > 0)
        if careful > 0 or tree.most[1] <= 0.0:
            break
        _restore(net, tree, choice, space.forest, space.old, planted)
    if greedy and _cost_inside(net, space, stamp, choice, count) > before:
        _restore(net, tree, choice, space.forest, space.old, planted)


@njit(cache=True, nogil=True)
def improve(
    net: Arrays, space: Space, choice: IntArray, tree: Tree, paid: FloatArray, moves: int,
    first_stamp: int, largest: int, seed: int, unit: float, heat: float,
) -> float:  # fmt: skip
    """Kick an area, settle it, and keep the result if it is no dearer.

    Args:
        net: the network.
        space: room to work in.
        choice: a choice that fits; receives better ones.
        tree: memory of `choice`.
        paid: sum of the prices of all time points before each one.
        moves: how many areas to try.
        first_stamp: a number larger than that of any move before, times 1.
        largest: nodes of the largest area.
        seed: of the random choices.
        unit: what noise is measured in.
        heat: how much dearer a result may be, relative to `unit`.

    Returns:
        What the cost changed by.
    """
    np.random.seed(seed)
    nodes = len(net.first) - 1
    total = 0.0
    span = np.log(max(largest, 13) / 12.0)
    for move in range(moves):
        stamp = first_stamp + move
        size = int(12.0 * np.exp(np.random.random() * span))
        if np.random.random() < 0.5:
            count = _grow(net, space, stamp, np.random.randint(nodes), min(size, nodes))
        else:
            count = _stretch(space, stamp, nodes, min(size, nodes))
        before = _cost_inside(net, space, stamp, choice, count)
        for k in range(count):
            space.backup[k] = choice[space.area[k]]
        # The order of the area changes with each pass, so the backup goes by node.
        area = space.area[:count].copy()
        kept = space.backup[:count].copy()
        scale = 0.5 + 1.3 * np.random.random()
        noise = unit * np.random.random()
        for step in range(4):
            _pass(net, space, stamp, choice, tree, paid, scale, noise, count, step > 0)
            scale, noise = (0.6 if step == 0 else (0.2 if step == 1 else 0.02)), 0.0
        descend(net, choice, tree, area, ROUNDS)
        after = _cost_inside(net, space, stamp, choice, count)
        if after <= before + heat * unit * np.random.random() and tree.most[1] <= 0.0:
            total += after - before
        else:
            _restore(net, tree, choice, area, kept, count)
    return total
