"""The default: the solvers that suit a problem, one after the other, with one answer and one bound.

Elimination is exact where the graph is narrow. Where it is too wide, or prices on memory take too
many passes, the cluster is halved first; where a gap stays, prices with message passing close it.
Segments of the program are then solved again within the rest, and integer programming proves what
is small.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import ClassVar

from planner.problem import Problem
from planner.solvers.conditioning import LARGEST_BUCKET
from planner.solvers.contract import Budget, Incumbent, Meter, Progress, Solution
from planner.solvers.dynamic_programming import PRICED_PASSES, DynamicProgramming
from planner.solvers.neighbourhoods import improve
from planner.solvers.recursive_bisection import RecursiveBisection
from planner.solvers.relaxation import exact_relaxation

ENOUGH = 1e-3
"""Relative gap with which an answer is left as it is, at effort 1; at effort e it is 1/e of it."""
WIDE = 2.0
"""How many times larger the gap of elimination must be for message passing to follow it."""
AFTER_BRANCHES = 10.0
"""The same after branches, whose bound is no weaker and whose answers are mixed already."""
POLISHED = 1e-4
"""The same after message passing, whose answers are cheap to make better by segments."""
POLISH_RESERVED = 0.8
"""Share of the work that this may not use."""
ELIMINATION_EFFORT, BISECTION_EFFORT, MESSAGE_EFFORT = 4, 4, 4
"""Units of work of each part for one of the whole; all mostly end long before."""
MAX_PAIRS = 60_000
"""Pairs of candidates over all edges up to which integer programming is worth its time; for more
than that message passing is worth the time to load its compiled loops."""


class Portfolio:
    """The best answer and the best bound of several solvers."""

    name: ClassVar[str] = "portfolio"

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve with the solvers that suit the problem; Ctrl-C ends that with the best so far.

        Raises:
            KeyboardInterrupt: there was no answer yet.
        """
        run = _Run(problem, budget, progress)
        try:
            run.search()
        except KeyboardInterrupt:
            if run.incumbent.choice is None:
                raise
            return replace(run.incumbent.solution(truncated=True), interrupted=True)
        found = run.incumbent.solution(truncated=run.truncated)
        if not run.is_open or run.truncated or run.is_large:
            return found
        return _proven(problem, run.budget_left(), found, progress)


class IntegerProgramming:
    """Integer programming, started from dynamic programming."""

    name: ClassVar[str] = "ilp"

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve; if the problem is too large, return the warm start and say so in the log."""
        started = time.monotonic()
        warm = DynamicProgramming().solve(problem, budget, progress)
        left = _time_left_s(budget, started)
        return _proven(problem, Budget(budget.effort, left, budget.seed, 1), warm, progress)


def _proven(
    problem: Problem, budget: Budget, warm: Solution, progress: Progress | None
) -> Solution:
    # CP-SAT takes longer to load than a small problem to solve.
    from planner.solvers.integer_programming import prove  # noqa: PLC0415

    return prove(problem, budget, warm, progress)


def _time_left_s(budget: Budget, started: float) -> float | None:
    if budget.deadline_s is None:
        return None
    return max(0.0, budget.deadline_s - (time.monotonic() - started))


class _Run:
    """One problem on its way through the solvers."""

    def __init__(self, problem: Problem, budget: Budget, progress: Progress | None) -> None:
        self.budget, self.started = budget, time.monotonic()
        self.incumbent = Incumbent.of(problem, progress)
        sizes = [table.time_s.size for table in problem.edge_tables]
        self.is_large = sum(sizes[table] for table in problem.edge_table_of) > MAX_PAIRS
        self.enough = max(ENOUGH / max(1, budget.effort), budget.enough)
        self.truncated = self.passed = False

    @property
    def is_open(self) -> bool:
        """Whether a better answer or bound is worth looking for."""
        return not self.incumbent.is_proven and self.incumbent.gap > self.enough

    def budget_left(self) -> Budget:
        """What the next solver may do: as much work again, and the time that is left."""
        return replace(self.budget, deadline_s=_time_left_s(self.budget, self.started))

    def search(self) -> None:
        """Elimination, message passing and neighbourhoods as far as they are needed."""
        meter = Meter(replace(self.budget, effort=ELIMINATION_EFFORT * max(1, self.budget.effort)))
        exact = exact_relaxation(self.incumbent.ledger, meter, 2 * LARGEST_BUCKET)
        limited = math.isfinite(self.incumbent.problem.memory_limit_bytes)
        if self.is_large and (
            exact is None or (limited and PRICED_PASSES * exact.work > meter.left)
        ):
            self._bisect(BISECTION_EFFORT if exact is None else 1)
            if exact is not None:
                # Elimination is slow here, so it must have something to gain.
                self.enough *= WIDE
            elif self.is_open:
                self._pass_messages()
        if self.is_open:
            DynamicProgramming().run(self.incumbent, meter, exact, WIDE * self.enough)
            self.truncated |= meter.truncated
        wide = (WIDE if exact is None else AFTER_BRANCHES) * self.enough
        open_still = not self.incumbent.is_proven and self.incumbent.gap > wide
        if self.is_large and not self.passed and open_still:
            self._pass_messages()
        if not self.incumbent.is_proven and not (self.is_large and limited):
            self._polish()

    def _polish(self) -> None:
        meter = Meter(self.budget_left())
        meter.reserve(POLISH_RESERVED if self.passed else 0.0)
        enough = POLISHED if self.passed else self.enough * max(1, self.budget.effort)
        improve(self.incumbent, meter, self.budget.seed, enough)
        self.truncated |= meter.truncated

    def _bisect(self, effort: int) -> None:
        left = self.budget_left()
        meter = Meter(replace(left, effort=effort * max(1, left.effort)))
        RecursiveBisection().run(self.incumbent, meter)
        self.truncated |= meter.truncated

    def _pass_messages(self) -> None:
        self.passed = True
        # Brings in numba, which takes longer to load than a small problem to solve.
        from planner.solvers.local_search import improve_on_network  # noqa: PLC0415

        left = self.budget_left()
        meter = Meter(replace(left, effort=MESSAGE_EFFORT * left.effort))
        improve_on_network(
            self.incumbent, meter, self.budget, neighbourhoods=True, enough=self.enough
        )
        self.truncated |= meter.truncated
