"""Limits of a choice, as solvers keep them: each is one more time point to them.

Every solver keeps and bounds memory at many time points. A limit on something else is one more of
them, at which candidates hold their share of the memory limit; no answer tells of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from planner.problem import ChoiceLimit, NodeTable, Problem
from planner.solvers.contract import Budget, Progress, Solution, Solver


@dataclass(frozen=True, slots=True)
class WithinLimits:
    """A solver of memory limits that keeps the other limits of a problem too."""

    solver: Solver

    @property
    def name(self) -> str:
        """Of the solver."""
        return self.solver.name

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """The solver's answer with its own peak; infinite where a limit is not kept."""
        found = self.solver.solve(limits_as_memory(problem), budget, progress)
        if found.choice is None or not problem.limits:
            return found
        kept = all(limit.holds(found.choice) for limit in problem.limits)
        return replace(found, peak_bytes=problem.peak_bytes(found.choice) if kept else math.inf)


def limits_as_memory(problem: Problem) -> Problem:
    """The problem with one more time point for each limit, which nothing else fills."""
    for limit in problem.limits:
        problem = _with_point(problem, limit)
    return replace(problem, limits=()) if problem.limits else problem


def _with_point(problem: Problem, limit: ChoiceLimit) -> Problem:
    nbytes = problem.memory_limit_bytes
    if math.isinf(nbytes):
        nbytes = 2.0 * _all_bytes(problem) + 1.0
    point, unit = problem.time_points, nbytes / limit.most if limit.most else math.inf
    tables, of = list(problem.node_tables), list(problem.node_table_of)
    known: dict[tuple[int, bytes], int] = {}
    intervals = list(problem.node_intervals)
    for node, own in limit.amounts.items():
        key = (of[node], own.tobytes())
        if known.setdefault(key, len(tables)) == len(tables):
            old = tables[of[node]]
            # Where nothing may be taken no candidate that takes something fits.
            filled = own * unit if limit.most else np.where(own > 0, 2.0 * nbytes, 0.0)
            tables.append(NodeTable(old.time_s, (*old.memory_bytes, filled), old.axes))
        of[node] = known[key]
        intervals[node] = (*intervals[node], (point, point + 1))
    return replace(
        problem,
        node_tables=tuple(tables),
        node_table_of=tuple(of),
        node_intervals=tuple(intervals),
        time_points=point + 1,
        memory_limit_bytes=nbytes,
    )


def _all_bytes(problem: Problem) -> float:
    """More than any choice can hold."""
    most = [sum(float(v.max()) for v in t.memory_bytes) for t in problem.node_tables]
    pairs = [sum(float(m.max()) for m in t.memory_bytes) for t in problem.edge_tables]
    nodes = math.fsum(most[table] for table in problem.node_table_of)
    return nodes + math.fsum(pairs[table] for table in problem.edge_table_of)
