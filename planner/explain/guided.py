"""Answers where memory binds, near a plan and at the prices of its memory.

At fixed prices on memory the best choice is found by one elimination, and what it costs, memory
paid for, is at most what anything costs that fits. Two questions asked at the same prices differ
by what they differ in truth, but for the jumps of what cannot be cut in halves.

An answer that fits is sought at several heights of the prices, first with all as planned but for
what changes at the prices and its neighbours, then with everything free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.problem import (
    EdgeTable,
    FloatArray,
    Interval,
    NodeTable,
    Problem,
    tables_of,
    with_more,
)
from planner.reduction.restriction import IndexArray
from planner.solvers import Solution, best_among

FACTORS = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0)
"""On the prices of memory, at each of which a choice is tried."""
SLACK, JUMPS = 1.5, 5e-4
"""An answer will do that is slower than the plan by so many times what the prices tell, and by this
part of the step beside it."""


@dataclass(frozen=True, slots=True, eq=False)
class Guide:
    """A plan that fits, and what its memory is worth."""

    choice: tuple[int, ...]
    per_byte: FloatArray
    """Seconds that a byte more would save, at each time point."""
    paid_choice: tuple[int, ...]
    """The best choice where memory is paid for at these prices."""
    paid_s: float
    """What it costs then."""


def priced(problem: Problem, per_byte: FloatArray) -> Problem:
    """The problem in which memory is paid for, without a limit; equal tables stay shared."""
    running = np.concatenate(([0.0], np.cumsum(per_byte)))

    def weights(intervals: Sequence[Interval]) -> tuple[float, ...]:
        return tuple(float(running[end] - running[start]) for start, end in intervals)

    node_weights = [weights(intervals) for intervals in problem.node_intervals]
    edge_weights = [weights(intervals) for intervals in problem.edge_intervals]

    def node_table(node: int) -> NodeTable:
        own = problem.node_tables[problem.node_table_of[node]]
        paid_s = _paid_s(own.memory_bytes, node_weights[node])
        return with_more(replace(own, memory_bytes=()), paid_s)

    def edge_table(edge: int) -> EdgeTable:
        own = problem.edge_tables[problem.edge_table_of[edge]]
        paid_s = _paid_s(own.memory_bytes, edge_weights[edge])
        return with_more(replace(own, memory_bytes=()), paid_s)

    return problem.without_memory(
        tables_of(zip(problem.node_table_of, node_weights, strict=True), node_table),
        tables_of(zip(problem.edge_table_of, edge_weights, strict=True), edge_table),
    )


def _paid_s(held: Sequence[FloatArray], weights: Sequence[float]) -> FloatArray | float:
    pairs = zip(held, weights, strict=True)
    return sum((weight * own for own, weight in pairs if weight), start=0.0)


def at_prices(
    problem: Problem, per_byte: FloatArray, allowed: Sequence[IndexArray], factor: float = 1.0
) -> Solution:
    """The best choice among some candidates with memory paid for; its cost is less what the limit
    is worth, so that it is a bound of what fits.
    """
    found = best_among(priced(problem, per_byte * factor), allowed)
    worth = factor * float(per_byte.sum()) * problem.memory_limit_bytes
    return replace(found, cost_s=found.cost_s - worth, bound_s=found.bound_s - worth)


@dataclass(slots=True, eq=False)
class Guided:
    """The search for an answer near a guide."""

    problem: Problem
    guide: Guide
    allowed: Sequence[IndexArray]
    asked: frozenset[int]
    """What is in question."""
    bound_s: float = -math.inf
    """Nothing that fits costs less."""

    def found(self, fits: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...] | None:
        """The best that fits; None if a solver may know a much better one."""
        best = at_prices(self.problem, self.guide.per_byte, self.allowed)
        if best.choice is None:
            return None
        self.bound_s = best.bound_s
        changes = changed_area(self.problem, best.choice, self.guide.paid_choice, self.asked)
        near = fixed_outside(self.allowed, changes, self.guide.choice)
        for offered in (near, self.allowed):
            costs = {choice: self.problem.cost_s(choice) for choice in self._offers(offered)}
            ordered = sorted(costs, key=lambda choice: (costs[choice], choice))
            answer = next((choice for choice in ordered if fits(choice)), None)
            if answer is not None and costs[answer] <= self._hoped_s():
                return answer
        return None

    def _offers(self, allowed: Sequence[IndexArray]) -> Iterator[tuple[int, ...]]:
        for factor in FACTORS:
            choice = at_prices(self.problem, self.guide.per_byte, allowed, factor).choice
            if choice is not None:
                yield choice

    def _hoped_s(self) -> float:
        """What an answer may cost that no solver needs to be asked about."""
        planned_s = self.problem.cost_s(self.guide.choice)
        more_s = max(self.bound_s - self.guide.paid_s, 0.0)
        return planned_s * (1 + JUMPS) + SLACK * more_s


def changed_area(
    problem: Problem,
    choice: Sequence[int],
    other: Sequence[int],
    asked: Iterable[int],
    edges: int = 1,
) -> set[int]:
    """Nodes in which two choices differ and those in question, with all so many edges away."""
    pairs = enumerate(zip(choice, other, strict=True))
    out = {node for node, (new, old) in pairs if new != old}.union(asked)
    for _ in range(edges):
        out = out.union(other for node in sorted(out) for _, other in problem.edges_at[node])
    return out


def fixed_outside(
    allowed: Sequence[IndexArray], area: set[int], choice: Sequence[int]
) -> list[IndexArray]:
    """The candidates in an area; elsewhere those of a choice, where they are allowed."""
    return [
        own if node in area or choice[node] not in own else np.array([choice[node]], dtype=np.intp)
        for node, own in enumerate(allowed)
    ]


def edge_s(problem: Problem, index: int, choice: Sequence[int]) -> float:
    """Seconds of an edge under a choice."""
    first, second = problem.edges[index]
    table = problem.edge_tables[problem.edge_table_of[index]]
    return float(table.time_s[choice[first], choice[second]])


def node_s(problem: Problem, index: int, choice: Sequence[int]) -> float:
    """Seconds of a node's own work under a choice."""
    return float(problem.node_tables[problem.node_table_of[index]].time_s[choice[index]])


def local_s(problem: Problem, choice: Sequence[int], node: int, candidate: int) -> float:
    """Seconds of a candidate of a node and of the edges at it, everything else as chosen."""
    other = list(choice)
    other[node] = candidate
    edges = (edge_s(problem, index, other) for index, _ in problem.edges_at[node])
    return math.fsum((node_s(problem, node, other), *edges))
