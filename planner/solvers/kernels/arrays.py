"""A network as the compiled loops take it, and the memory that a choice of it holds over time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from planner.reduction.network import FORBIDDEN, FloatArray, IntArray, Network, offsets, runs

CAP = 1e14
"""What a forbidden cost counts: sums of a few thousand stay exact to a fraction of one unit."""


class Arrays(NamedTuple):
    """Candidates, edges by node, and spans by node; edges have the smaller node first."""

    first: IntArray
    cost: FloatArray
    low: IntArray
    """First node of every edge."""
    high: IntArray
    edge_first: IntArray
    edge_cost: FloatArray
    around_first: IntArray
    """Where the edges of each node start in `around`."""
    around: IntArray
    span_of_first: IntArray
    """Where the spans of each node start; spans are sorted by node."""
    span_start: IntArray
    span_end: IntArray
    span_first: IntArray
    usage: FloatArray
    room: FloatArray
    """Limit less base at each time point."""
    pair_of_first: IntArray
    """Where the spans of pairs of each edge start; they are sorted by edge."""
    pair_start: IntArray
    pair_end: IntArray
    pair_first: IntArray
    pair_usage: FloatArray


def arrays_of(net: Network) -> Arrays:
    """The arrays of a network whose edges have the smaller node first and are not parallel."""
    ends = net.edges.T.ravel()
    order = np.argsort(ends, kind="stable")
    spans = np.argsort(net.span_node, kind="stable")
    pairs = np.argsort(net.pair_edge, kind="stable")
    sizes = net.sizes[net.span_node[spans]]
    starts = net.span_first[:-1][spans]
    return Arrays(
        first=net.first,
        cost=np.minimum(net.cost, CAP),
        low=np.ascontiguousarray(net.edges[:, 0]),
        high=np.ascontiguousarray(net.edges[:, 1]),
        edge_first=net.edge_first,
        edge_cost=np.where(net.edge_cost < FORBIDDEN, net.edge_cost, CAP),
        around_first=offsets(np.bincount(ends, minlength=net.nodes)),
        around=order % max(len(net.edges), 1),
        span_of_first=offsets(np.bincount(net.span_node, minlength=net.nodes)),
        span_start=np.ascontiguousarray(net.span_time[spans, 0]),
        span_end=np.ascontiguousarray(net.span_time[spans, 1]),
        span_first=offsets(sizes),
        usage=net.usage[runs(starts, sizes)],
        room=net.limit - net.base,
        pair_of_first=offsets(np.bincount(net.pair_edge, minlength=len(net.edges))),
        pair_start=np.ascontiguousarray(net.pair_time[pairs, 0]),
        pair_end=np.ascontiguousarray(net.pair_time[pairs, 1]),
        pair_first=net.pair_first[pairs],
        pair_usage=net.pair_usage,
    )


@njit(cache=True, nogil=True)
def largest_size(first: IntArray) -> int:
    """Candidates of the node that has most, given where those of each node start."""
    largest = 0
    for node in range(len(first) - 1):
        largest = max(largest, first[node + 1] - first[node])
    return largest


class Tree(NamedTuple):
    """Memory in use over time: a segment tree with addition to a range and the largest of all.

    Each time point holds what is in use beyond its room; the choice fits while no value is above 0.
    Nodes are those of a complete binary tree; leaf `t` is number `leaves + t`.
    """

    most: FloatArray
    """Largest value below each node, its own addition included."""
    added: FloatArray
    """What was added to all below each inner node."""


def empty_tree(time_points: int) -> Tree:
    """A tree for so many time points, to be filled."""
    leaves = 1 << max(time_points - 1, 0).bit_length()
    return Tree(np.full(2 * leaves, -np.inf), np.zeros(2 * leaves))


@njit(cache=True, nogil=True)
def fill(net: Arrays, choice: IntArray, tree: Tree) -> None:
    """Make the tree that of a choice."""
    points, leaves = len(net.room), len(tree.most) // 2
    profile = np.zeros(points + 1)
    for node in range(len(net.first) - 1):
        for span in range(net.span_of_first[node], net.span_of_first[node + 1]):
            amount = net.usage[net.span_first[span] + choice[node]]
            profile[net.span_start[span]] += amount
            profile[net.span_end[span]] -= amount
    for edge in range(len(net.low)):
        for span in range(net.pair_of_first[edge], net.pair_of_first[edge + 1]):
            width = net.first[net.high[edge] + 1] - net.first[net.high[edge]]
            pair = choice[net.low[edge]] * width + choice[net.high[edge]]
            amount = net.pair_usage[net.pair_first[span] + pair]
            profile[net.pair_start[span]] += amount
            profile[net.pair_end[span]] -= amount
    total = 0.0
    tree.most[:] = -np.inf
    tree.added[:] = 0.0
    for t in range(points):
        total += profile[t]
        tree.most[leaves + t] = total - net.room[t]
    for place in range(leaves - 1, 0, -1):
        tree.most[place] = max(tree.most[2 * place], tree.most[2 * place + 1])


@njit(cache=True, nogil=True)
def _add(tree: Tree, start: int, end: int, amount: float) -> None:
    most, added = tree.most, tree.added
    leaves = len(most) // 2
    left, right = start + leaves, end + leaves
    while left < right:
        if left & 1:
            most[left] += amount
            added[left] += amount
            left += 1
        if right & 1:
            right -= 1
            most[right] += amount
            added[right] += amount
        left >>= 1
        right >>= 1
    _rebuild(tree, start + leaves)
    _rebuild(tree, end - 1 + leaves)


@njit(cache=True, nogil=True)
def _rebuild(tree: Tree, place: int) -> None:
    place >>= 1
    while place >= 1:
        tree.most[place] = max(tree.most[2 * place], tree.most[2 * place + 1]) + tree.added[place]
        place >>= 1


@njit(cache=True, nogil=True)
def swap(net: Arrays, tree: Tree, choice: IntArray, node: int, old: int, new: int) -> None:
    """Take the memory of one candidate of a node for that of another.

    Args:
        net: the network.
        tree: receives the difference.
        choice: what its neighbours choose.
        node: the node.
        old: the candidate in the tree.
        new: the other one.
    """
    for span in range(net.span_of_first[node], net.span_of_first[node + 1]):
        place = net.span_first[span]
        amount = net.usage[place + new] - net.usage[place + old]
        if amount != 0.0:
            _add(tree, net.span_start[span], net.span_end[span], amount)
    if len(net.pair_start) > 0:
        for k in range(net.around_first[node], net.around_first[node + 1]):
            _swap_pair(net, tree, choice, node, net.around[k], old, new)


@njit(cache=True, nogil=True)
def _swap_pair(
    net: Arrays, tree: Tree, choice: IntArray, node: int, edge: int, old: int, new: int
) -> None:
    low, high = net.low[edge], net.high[edge]
    width = net.first[high + 1] - net.first[high]
    if low == node:
        before, after = old * width + choice[high], new * width + choice[high]
    else:
        before, after = choice[low] * width + old, choice[low] * width + new
    for span in range(net.pair_of_first[edge], net.pair_of_first[edge + 1]):
        place = net.pair_first[span]
        amount = net.pair_usage[place + after] - net.pair_usage[place + before]
        if amount != 0.0:
            _add(tree, net.pair_start[span], net.pair_end[span], amount)


@njit(cache=True, nogil=True)
def swap_if_it_fits(
    net: Arrays, tree: Tree, choice: IntArray, node: int, old: int, new: int
) -> bool:
    """Swap two candidates of a node unless that makes the worst overfull point worse."""
    before = max(tree.most[1], 0.0)
    swap(net, tree, choice, node, old, new)
    if tree.most[1] <= before:
        return True
    swap(net, tree, choice, node, new, old)
    return False
