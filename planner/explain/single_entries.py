"""Single dear pairs of an edge: those that a candidate would have to pay, were it to be chosen.

Holding an edge to what it costs in the plan does not find a pair that alone is dear where the plan
moves something along that edge too, or has another candidate at the other end. So the dearest
pairs of the candidate at each of its edges are lifted by themselves, to the least that anything
costs there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.explain.local_costs import edges_at
from planner.explain.posed import Forced, Posed
from planner.problem import EdgeTable, FloatArray, Problem

SAME = 1e-9
"""Relative difference below which two pairs cost the same."""


@dataclass(frozen=True, slots=True, eq=False)
class EntryLift:
    """An edge with its dearest pairs of a candidate lifted."""

    edge: int
    lifted: NDArray[np.bool_]
    """Which pairs, shape of the edge's table."""
    least_s: float
    """To what."""
    before_s: FloatArray
    """What the pairs cost before."""
    posed: Posed
    """The problem with that."""

    def removed_s(self, choice: Sequence[int]) -> float:
        """What a choice is spared, in seconds."""
        first, second = self.posed.problem.edges[self.edge]
        at = (choice[first], choice[second])
        return float(self.before_s[at]) - self.least_s if self.lifted[at] else 0.0


def entry_lifts(posed: Posed, rival: Forced, levels: int) -> Iterator[EntryLift]:
    """The lifts of every edge at the nodes in question.

    Args:
        posed: the problem.
        rival: the nodes with the candidate in question.
        levels: of costs that are lifted, from the dearest on, one by one.
    """
    problem = posed.problem
    for index in sorted({e for node in rival for e in edges_at(problem)[node]}):
        time_s = problem.edge_tables[problem.edge_table_of[index]].time_s
        own = _pairs(problem, index, rival) & (time_s != posed.impossible_s)
        if not own.any():
            continue
        least_s = float(time_s[time_s != posed.impossible_s].min())
        for level in _levels(time_s[own], least_s)[:levels]:
            lifted = own & np.isclose(time_s, level, rtol=SAME, atol=0.0)
            other = _with_edge(problem, index, np.where(lifted, least_s, time_s))
            yield EntryLift(index, lifted, least_s, time_s, replace(posed, problem=other))


def _pairs(problem: Problem, index: int, rival: Forced) -> NDArray[np.bool_]:
    """The pairs of an edge that have the candidate in question."""
    ends = problem.edges[index]
    sizes = [problem.sizes[end] for end in ends]
    rows = [np.isin(np.arange(size), rival[end]) if end in rival else np.ones(size, dtype=bool)
            for end, size in zip(ends, sizes, strict=True)]  # fmt: skip
    return np.outer(*rows).astype(bool)


def _levels(costs: FloatArray, least_s: float) -> list[float]:
    """Distinct costs above the least, the dearest first."""
    out: list[float] = []
    for cost in sorted({float(each) for each in costs}, reverse=True):
        if cost > least_s and not (out and np.isclose(cost, out[-1], rtol=SAME, atol=0.0)):
            out.append(cost)
    return out


def _with_edge(problem: Problem, index: int, time_s: FloatArray) -> Problem:
    of = list(problem.edge_table_of)
    table = problem.edge_tables[of[index]]
    of[index] = len(problem.edge_tables)
    tables = (*problem.edge_tables, EdgeTable(time_s, table.memory_bytes))
    return replace(problem, edge_tables=tables, edge_table_of=tuple(of))
