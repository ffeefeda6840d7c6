"""Candidates that cannot be part of an answer: forbidden themselves, or without a partner that is
allowed across some edge (arc consistency).
"""

from __future__ import annotations

import numpy as np

from planner.network import FORBIDDEN, BoolArray, IntArray, offsets, runs
from planner.reduction.state import State, candidate_of_pair, without_candidates


class NoAnswerError(ValueError):
    """Nothing can be chosen for some node without something forbidden."""


def without_forbidden(state: State) -> State:
    """The state without candidates that need something forbidden.

    Raises:
        NoAnswerError: a node has none left.
    """
    while True:
        kept = _supported(state)
        if kept.all():
            return state
        net = state.network
        left = np.logical_or.reduceat(kept, net.first[:-1])
        if not left.all():
            node = int(np.flatnonzero(~left)[0])
            raise NoAnswerError(f"every candidate of node {node} needs something forbidden")
        state = without_candidates(state, kept)


def _supported(state: State) -> BoolArray:
    """For each candidate whether it is allowed and has a partner across every edge."""
    net = state.network
    kept = net.cost < FORBIDDEN
    if not len(net.edges):
        return kept
    u, v = net.edges[:, 0], net.edges[:, 1]
    allowed = net.edge_cost < FORBIDDEN
    ku, kv = net.sizes[u], net.sizes[v]
    row_first = offsets(np.repeat(kv, ku))
    rows = np.logical_or.reduceat(allowed, row_first[:-1])
    row_candidate = candidate_of_pair(net, 0)[row_first[:-1]]
    kept[row_candidate[~rows]] = False
    partners = np.bincount(column_slot(ku, kv)[allowed], minlength=int(kv.sum()))
    column_candidate = candidate_of_pair(net, 1)[_first_rows(ku, kv)]
    kept[column_candidate[partners == 0]] = False
    return kept


def column_slot(ku: IntArray, kv: IntArray) -> IntArray:
    """For every entry a number of its edge and column."""
    return runs(np.repeat(offsets(kv)[:-1], ku), np.repeat(kv, ku))


def _first_rows(ku: IntArray, kv: IntArray) -> IntArray:
    return runs(offsets(ku * kv)[:-1], kv)
