"""Candidates that another one of the same node replaces in every answer: no dearer whatever the
neighbours are, and at no time with more memory.

Most pairs of candidates are told apart by two partners on every edge, those where the difference is
likely large. Only what is left of them is looked at with all partners, and only at nodes around
which something changed.
"""

from __future__ import annotations

import numpy as np

from planner.reduction.network import (
    FORBIDDEN,
    BoolArray,
    FloatArray,
    IntArray,
    Network,
    offsets,
    runs,
    summed,
)
from planner.reduction.state import (
    BATCH,
    Marks,
    Sides,
    State,
    batches,
    marks_of,
    sides_of,
    tables_of,
    without_candidates,
)


def without_dominated(state: State, settled: Marks) -> tuple[State, Marks]:
    """The state without candidates that another one replaces.

    Args:
        state: the state.
        settled: marks of nodes none of whose candidates replaces another one.

    Returns:
        The state, and the marks of which that is known now.
    """
    net = state.network
    marks = marks_of(net)
    kept = _kept(net, (net.sizes > 1) & ~np.isin(marks, settled))
    if kept.all():
        return state, marks
    unchanged = np.logical_and.reduceat(kept, net.first[:-1])
    return without_candidates(state, kept), marks[unchanged]


def _kept(net: Network, looked_at: BoolArray) -> BoolArray:
    """Candidates that stay; of those that replace each other the first."""
    sides, spans = sides_of(net), np.argsort(net.span_node, kind="stable")
    span_first = offsets(np.bincount(net.span_node, minlength=net.nodes))
    kept = np.ones(len(net.cost), dtype=bool)
    for size in np.unique(net.sizes[looked_at]).tolist():
        nodes = np.flatnonzero(looked_at & (net.sizes == size))
        for batch in batches(np.full(len(nodes), size * size), BATCH // 4):
            group = nodes[batch]
            extra = _least_extra(net, group, size, sides)
            count = span_first[group + 1] - span_first[group]
            _block(net, extra, np.repeat(np.arange(len(group)), count),
                   spans[runs(span_first[group], count)])  # fmt: skip
            place, goes, stays = np.nonzero(extra <= 0)
            replaced = _most_extra(net, sides, group[place], goes, stays) <= 0
            start = net.first[group[place[replaced]]]
            _leave_out(kept, start + goes[replaced], start + stays[replaced])
    return kept


def _leave_out(kept: BoolArray, goes: IntArray, stays: IntArray) -> None:
    """Leave out, from the last to the first, what a candidate that is still there replaces."""
    order = np.argsort(-goes, kind="stable")
    for gone, left in zip(goes[order].tolist(), stays[order].tolist(), strict=True):
        if kept[left]:
            kept[gone] = False


def _least_extra(net: Network, nodes: IntArray, size: int, sides: Sides) -> FloatArray:
    """What taking the second of two candidates instead of the first costs at least, with the worst
    partners, for nodes with so many candidates; shape (nodes, size, size).
    """
    own = net.cost[net.first[nodes][:, None] + np.arange(size)]
    extra: FloatArray = own[:, None, :] - own[:, :, None]
    place, side = sides.of(nodes)
    every = np.full(len(side), size)
    for members, _, tables in tables_of(net, sides, every, side, squares=1):
        _add(extra, place[members], _at_two_partners(tables))
    return extra


def _at_two_partners(table: FloatArray) -> FloatArray:
    """The larger of two differences: with the best partner of the candidate that goes, and with
    the worst one of that which stays. A partner that the first may not have is no loss.

    Args:
        table: costs of candidates and partners, shape (M, K, P).

    Returns:
        Shape (M, K, K): by the candidate that goes and the one that stays.
    """
    never = table >= FORBIDDEN
    best = table.argmin(axis=2)
    least = np.take_along_axis(table, best[:, :, None], axis=2)
    out = np.take_along_axis(table, best[:, None, :], axis=2).transpose(0, 2, 1) - least
    worst = np.where(never, -np.inf, table).argmax(axis=2)
    top = np.take_along_axis(table, worst[:, :, None], axis=2)[:, :, 0]
    gone = np.take_along_axis(np.where(never, np.inf, table), worst[:, None, :], axis=2)
    np.maximum(out, top[:, None, :] - gone, out=out)
    return out


def _add(extra: FloatArray, place: IntArray, amounts: FloatArray) -> None:
    """Add the amounts of each edge to those of its node; the places ascend."""
    new = np.flatnonzero(np.diff(place, prepend=-1))
    if len(new) < len(place):
        amounts = np.add.reduceat(amounts, new, axis=0)
    extra[place[new]] += amounts


def _block(net: Network, extra: FloatArray, place: IntArray, spans: IntArray) -> None:
    """A candidate with more memory at some time replaces nothing with less, and none itself."""
    size = extra.shape[1]
    for batch in batches(np.full(len(spans), size * size), BATCH):
        usage = net.usage[net.span_first[spans[batch]][:, None] + np.arange(size)]
        new = np.flatnonzero(np.diff(place[batch], prepend=-1))
        more = np.logical_or.reduceat(usage[:, None, :] > usage[:, :, None], new, axis=0)
        held = place[batch][new]
        extra[held] = np.where(more, np.inf, extra[held])
    extra[:, np.arange(size), np.arange(size)] = np.inf


def _most_extra(
    net: Network, sides: Sides, nodes: IntArray, goes: IntArray, stays: IntArray
) -> FloatArray:
    """What taking one candidate of a node instead of another costs at most, for each of several
    pairs of candidates.
    """
    start = net.first[nodes]
    extra: FloatArray = net.cost[start + stays] - net.cost[start + goes]
    for batch in batches(sides.partners_of_node[nodes], BATCH // 4):
        place, side = sides.of(nodes[batch])
        most = _worst_partner(net, sides, side, goes[batch][place], stays[batch][place])
        extra[batch] += summed(place, most, len(extra[batch]))
    return extra


def _worst_partner(
    net: Network, sides: Sides, side: IntArray, goes: IntArray, stays: IntArray
) -> FloatArray:
    """The difference on each side with the partner where it is largest."""
    partners, rows = sides.partners[side], sides.end[side] == 0
    edge = sides.edge[side]
    own = net.sizes[net.edges[edge, sides.end[side]]]
    along = np.where(rows, partners, 1)
    step = np.repeat(np.where(rows, 1, own), partners)
    local = runs(np.zeros_like(partners), partners) * step
    first = net.edge_first[edge]
    gone = net.edge_cost[np.repeat(first + goes * along, partners) + local]
    left = net.edge_cost[np.repeat(first + stays * along, partners) + local]
    extra = left - np.where(gone < FORBIDDEN, gone, np.inf)
    return np.asarray(np.maximum.reduceat(extra, offsets(partners)[:-1]))
