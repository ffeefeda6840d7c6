"""Candidates that cannot be part of an answer: forbidden themselves, or without a partner that is
allowed across some edge (arc consistency).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.network import FORBIDDEN, BoolArray, IntArray, Network, offsets, runs
from planner.reduction.state import State, without_candidates


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
    """The state without candidates that need something forbidden.

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
