"""Every combination, one after the other: the yardstick of the tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from planner.problem import ROUNDING, FloatArray, Problem
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
    sizes = problem.sizes
    total = np.zeros(sizes)
    for node, table in enumerate(problem.node_table_of):
        total += _spread(problem.node_tables[table].time_s, (node,), sizes)
    for ends, table in zip(problem.edges, problem.edge_table_of, strict=True):
        total += _spread(problem.edge_tables[table].time_s, ends, sizes)
    return total.ravel()


def _all_peaks(problem: Problem) -> FloatArray:
    """Peak of every combination, in the order of `itertools.product`."""
    changes = sorted({0, *itertools.chain.from_iterable(_interval_ends(problem))})
    peak = np.zeros(problem.sizes)
    for point in changes:
        if point < problem.time_points:
            np.maximum(peak, _bytes_at(problem, point), out=peak)
    return peak.ravel()


def _interval_ends(problem: Problem) -> list[tuple[int, int]]:
    groups = itertools.chain(problem.node_intervals, problem.edge_intervals)
    return list(itertools.chain.from_iterable(groups))


def _bytes_at(problem: Problem, point: int) -> FloatArray:
    sizes = problem.sizes
    total = np.zeros(sizes)
    for node, (table, intervals) in enumerate(
        zip(problem.node_table_of, problem.node_intervals, strict=True)
    ):
        for (start, end), vector in zip(
            intervals, problem.node_tables[table].memory_bytes, strict=True
        ):
            if start <= point < end:
                total += _spread(vector, (node,), sizes)
    for ends, table, intervals in zip(
        problem.edges, problem.edge_table_of, problem.edge_intervals, strict=True
    ):
        for (start, end), matrix in zip(
            intervals, problem.edge_tables[table].memory_bytes, strict=True
        ):
            if start <= point < end:
                total += _spread(matrix, ends, sizes)
    return total


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
