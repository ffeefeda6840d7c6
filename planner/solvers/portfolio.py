"""The default: dynamic programming, then a proof where the gap is open and the problem small."""

from __future__ import annotations

import importlib
import time
from typing import ClassVar

from planner.problem import Problem
from planner.solvers.contract import Budget, Progress, Solution
from planner.solvers.dynamic_programming import DynamicProgramming

ENOUGH = 1e-3
"""Relative gap with which dynamic programming is left as it is."""
MAX_PAIRS = 60_000
"""Pairs of candidates over all edges up to which integer programming is worth its time."""


class Portfolio:
    """The best answer and the best bound of several solvers."""

    name: ClassVar[str] = "portfolio"

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve with the solver that suits the problem."""
        started = time.monotonic()
        found = DynamicProgramming().solve(problem, budget, progress)
        is_open = found.proof == "none" or (found.proof == "bounded" and found.gap > ENOUGH)
        if not is_open or found.truncated or _pairs(problem) > MAX_PAIRS:
            return found
        left = budget.deadline_s
        if left is not None:
            left = max(0.0, left - (time.monotonic() - started))
        prove = importlib.import_module("planner.solvers.ilp").prove
        proven: Solution = prove(
            problem, Budget(budget.effort, left, budget.seed, budget.threads), found, progress
        )
        return proven


def _pairs(problem: Problem) -> int:
    sizes = [table.time_s.size for table in problem.edge_tables]
    return sum(sizes[table] for table in problem.edge_table_of)
