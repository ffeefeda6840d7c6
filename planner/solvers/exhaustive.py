"""Every combination, one after the other: the yardstick of the tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from planner.problem import ROUNDING, EdgeTable, FloatArray, Interval, NodeTable, Problem
from planner.solvers.contract import Budget, ProblemTooLargeError, Progress, Solution

MAX_COMBINATIONS = 5_000_000
"""More than these are refused: about a minute."""


class Exhaustive:
    """Enumerates all choices of a small problem; every answer is a proof."""

    name: ClassVar[str] = "exhaustive"

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:  # noqa: ARG002
        """Solve exactly.

        Raises:
            ProblemTooLargeError: there are too many combinations.
        """
        combinations = math.prod(problem.sizes)
        if combinations > MAX_COMBINATIONS:
            raise ProblemTooLargeError(
                f"{_count(problem.sizes)} combinations are too many to enumerate; "
                f"the solver stops at {MAX_COMBINATIONS:,}"
            )
        cost, peak = _all_costs(problem), _all_peaks(problem)
        fits = peak <= problem.memory_limit_bytes * (1.0 + ROUNDING)
        if not fits.any():
            choice = _unravel(problem, int(peak.argmin()))
            return Solution(
                choice,
                problem.cost_s(choice),
                math.inf,
                "infeasible",
                problem.peak_bytes(choice),
                False,
            )
        choice = _unravel(problem, int(np.where(fits, cost, np.inf).argmin()))
        cost_s = problem.cost_s(choice)
        if progress is not None:
            progress("all combinations seen", cost_s, cost_s)
        return Solution(choice, cost_s, cost_s, "optimal", problem.peak_bytes(choice), False)


def _count(sizes: Sequence[int]) -> str:
    """So many combinations, as a power of ten.

    >>> _count([100, 1000])
    '10^5'
    """
    return f"10^{sum(math.log10(size) for size in sizes):.0f}"


def _all_costs(problem: Problem) -> FloatArray:
    """Seconds of every combination, in the order of `itertools.product`."""
    total = np.zeros(problem.sizes)
    for nodes, table, _ in _tables(problem):
        total += _spread(table.time_s, nodes, problem.sizes)
    return total.ravel()


def _all_peaks(problem: Problem) -> FloatArray:
    """Peak of every combination, in the order of `itertools.product`."""
    held = [
        (interval, _spread(nbytes, nodes, problem.sizes))
        for nodes, table, intervals in _tables(problem)
        for interval, nbytes in zip(intervals, table.memory_bytes, strict=True)
    ]
    peak = np.zeros(problem.sizes)
    for point in sorted({0, *itertools.chain.from_iterable(interval for interval, _ in held)}):
        if point < problem.time_points:
            total = np.zeros(problem.sizes)
            for (start, end), nbytes in held:
                if start <= point < end:
                    total += nbytes
            np.maximum(peak, total, out=peak)
    return peak.ravel()


def _tables(
    problem: Problem,
) -> Iterator[tuple[tuple[int, ...], NodeTable | EdgeTable, tuple[Interval, ...]]]:
    """Nodes, table and live intervals of every node, then of every edge."""
    of_nodes = zip(problem.node_table_of, problem.node_intervals, strict=True)
    for node, (table, intervals) in enumerate(of_nodes):
        yield (node,), problem.node_tables[table], intervals
    of_edges = zip(problem.edges, problem.edge_table_of, problem.edge_intervals, strict=True)
    for ends, table, intervals in of_edges:
        yield ends, problem.edge_tables[table], intervals


def _spread(array: FloatArray, nodes: tuple[int, ...], sizes: tuple[int, ...]) -> FloatArray:
    """Bring an array over some nodes into the dimensions of all."""
    if nodes[0] > nodes[-1]:
        array, nodes = array.T, nodes[::-1]
    shape = [1] * len(sizes)
    for node in nodes:
        shape[node] = sizes[node]
    return array.reshape(shape)


def _unravel(problem: Problem, index: int) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(index, problem.sizes))
