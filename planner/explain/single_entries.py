"""Single dear pairs of an edge: those that a candidate would have to pay, were it to be chosen.

Holding an edge to what it costs in the plan does not find a pair that alone is dear where the plan
moves something along that edge too, or has another candidate at the other end. So all pairs of the
candidate at an edge are lifted, to the least that anything costs there: the pair that the best
choice then has would alone be enough, for that choice needs no other. The same without that pair
finds the next one, until nothing is as good as the plan any more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.explain.local_costs import edges_at
from planner.explain.posed import Forced, Posed
from planner.problem import EdgeTable, FloatArray, Problem

SAME = 1e-9
"""Relative difference below which two pairs cost the same."""


@dataclass(frozen=True, slots=True, eq=False)
class DearPair:
    """A pair of an edge without whose cost the candidate would be as good as the plan's."""

    edge: int
    there_s: float
    """What the best choice costs with the candidate and without that cost, in seconds."""
    removed_s: float
    """What it is spared."""
    choice: tuple[int, ...]


def dear_pairs(posed: Posed, rival: Forced, planned_s: float, most: int) -> Iterator[DearPair]:
    """Pairs at the edges of the nodes in question that alone keep the candidate away.

    Args:
        posed: the problem.
        rival: the nodes with the candidate in question.
        planned_s: what the best choice costs without the candidate.
        most: pairs of one edge; those of equal cost are one.
    """
    for index in sorted({e for node in rival for e in edges_at(posed.problem)[node]}):
        yield from itertools.islice(_of_edge(posed, rival, planned_s, index), most)


def _of_edge(posed: Posed, rival: Forced, planned_s: float, index: int) -> Iterator[DearPair]:
    problem = posed.problem
    time_s = problem.edge_tables[problem.edge_table_of[index]].time_s
    can_be = time_s != posed.impossible_s
    least_s = float(time_s[can_be].min(initial=math.inf))
    pairs = _pairs(problem, index, rival) & can_be & (time_s > least_s)
    while pairs.any():
        lifted = replace(
            posed, problem=_with_edge(problem, index, np.where(pairs, least_s, time_s))
        )
        there_s, choice = lifted.compared(rival)
        first, second = problem.edges[index]
        at = (choice[first], choice[second]) if choice else None
        if at is None or there_s > planned_s or not pairs[at]:
            return
        yield DearPair(index, there_s, float(time_s[at]) - least_s, choice)
        pairs &= ~np.isclose(time_s, time_s[at], rtol=SAME, atol=0.0)


def _pairs(problem: Problem, index: int, rival: Forced) -> NDArray[np.bool_]:
    """The pairs of an edge that have the candidate in question."""
    ends = problem.edges[index]
    sizes = [problem.sizes[end] for end in ends]
    rows = [np.isin(np.arange(size), rival[end]) if end in rival else np.ones(size, dtype=bool)
            for end, size in zip(ends, sizes, strict=True)]  # fmt: skip
    return np.outer(*rows).astype(bool)


def _with_edge(problem: Problem, index: int, time_s: FloatArray) -> Problem:
    of = list(problem.edge_table_of)
    table = problem.edge_tables[of[index]]
    of[index] = len(problem.edge_tables)
    tables = (*problem.edge_tables, EdgeTable(time_s, table.memory_bytes))
    return replace(problem, edge_tables=tables, edge_table_of=tuple(of))
