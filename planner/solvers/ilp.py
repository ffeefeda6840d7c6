"""Integer programming with CP-SAT: for small or pinned problems, and as proof.

One 0/1 variable per candidate and one per pair of candidates of an edge, tied by sums over rows and
columns. Memory rows are added only for the time points that an answer overfills. Times become
integers by rounding down, at a scale where the distance between the known answer and the sum of all
minima is 2^44; hence the bound of the integers is a bound of the problem, and a proof holds up to
one part in 2^44 per node and edge. The reported cost is always that of the problem itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from ortools.sat.python import cp_model

from planner.problem import Problem
from planner.solvers.contract import Budget, Progress, Solution
from planner.solvers.dynamic_programming import DynamicProgramming
from planner.solvers.ilp_model import Model, Relevant, relevant_entries
from planner.solvers.ledger import Ledger
from planner.solvers.progress import Incumbent

MAX_PAIRS = 300_000
"""Pairs of candidates that can matter; more are left to the warm start (a minute of building)."""
DETERMINISTIC_SECONDS = 10.0
"""CP-SAT's own unit of work per unit of effort; about a second each."""
MAX_ROUNDS = 50
"""Times that memory rows are added."""
ROWS_PER_ROUND = 4
"""Overfull time points that get a row at once."""


class IntegerProgramming:
    """CP-SAT with lazily added memory rows, started from dynamic programming."""

    name: ClassVar[str] = "ilp"

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve; if the problem is too large, return the warm start and say so in the log."""
        started = time.monotonic()
        warm = DynamicProgramming().solve(problem, budget, progress)
        left = _time_left(budget, started)
        return prove(problem, Budget(budget.effort, left, budget.seed, 1), warm, progress)


def _time_left(budget: Budget, started: float) -> float | None:
    if budget.deadline_s is None:
        return None
    return max(0.0, budget.deadline_s - (time.monotonic() - started))


def prove(
    problem: Problem,
    budget: Budget,
    warm: Solution,
    progress: Progress | None = None,
    work: float = DETERMINISTIC_SECONDS,
    target_s: float = -math.inf,
) -> Solution:
    """Improve a known solution, or show that it is the best.

    Args:
        problem: what is solved.
        budget: effort and deadline of this part alone.
        warm: what is known; its bound is taken over.
        progress: called when the answer or the bound improves.
        work: CP-SAT's own unit of work per unit of effort.
        target_s: cost that is good enough: the first answer as good is the last.

    Returns:
        A solution that is at least as good.
    """
    if warm.proof in {"optimal", "infeasible"} or warm.choice is None or warm.truncated:
        return warm
    ledger = Ledger(problem)
    limits = np.full(problem.time_points, float(problem.memory_limit_bytes))
    incumbent = Incumbent(ledger, limits, progress)
    incumbent.log.extend(warm.log)
    incumbent.offer(warm.choice, "warm start")
    incumbent.raise_bound(warm.bound_s, 0.0, "warm start")
    relevant = relevant_entries(problem, incumbent.cost_s)
    if relevant.pairs > MAX_PAIRS:
        incumbent.note(
            f"ilp: {relevant.pairs} pairs of candidates are more than {MAX_PAIRS}; "
            "the answer and the bound are those of dynamic programming"
        )
        return incumbent.solution(truncated=False)
    work_left = work * max(1, budget.effort)
    search = _Search(incumbent, relevant, warm.choice, (budget, work_left), target_s)
    truncated = search.run()
    return incumbent.solution(truncated=truncated)


class _UntilGood(cp_model.CpSolverSolutionCallback):
    """Ends a search at the first answer that is good enough."""

    def __init__(self, model: Model, target_s: float) -> None:
        super().__init__()
        self._model, self._target_s = model, target_s

    def on_solution_callback(self) -> None:
        if self._model.seconds(self.objective_value) <= self._target_s:
            self.stop_search()


class _Search:
    """Rounds of solving and adding rows."""

    def __init__(
        self,
        incumbent: Incumbent,
        relevant: Relevant,
        start: Sequence[int],
        limits: tuple[Budget, float],
        target_s: float,
    ) -> None:
        budget, self._work_left = limits
        self._incumbent = incumbent
        self._model = Model(incumbent.problem, relevant)
        self._start = start
        self._seed = budget.seed
        self._target_s = target_s
        self._stop = None
        if budget.deadline_s is not None:
            self._stop = time.monotonic() + budget.deadline_s

    def run(self) -> bool:
        """Solve until proven or out of work; whether the clock cut it short."""
        self._add_rows(self._start, also_full=True)
        for _ in range(MAX_ROUNDS):
            if self._stop is not None and time.monotonic() >= self._stop:
                return True
            solver, status = self._solve()
            if status == cp_model.INFEASIBLE:
                self._incumbent.infeasible = self._incumbent.choice is None
                return False
            if status == cp_model.UNKNOWN:
                return self._was_stopped()
            choice = self._model.choice(solver)
            self._note_bound(solver)
            self._incumbent.offer(choice, "ilp")
            if not self._add_rows(choice):
                if self._incumbent.cost_s <= self._target_s:
                    return False
                return status != cp_model.OPTIMAL and self._was_stopped()
            if status != cp_model.OPTIMAL:
                return self._was_stopped()
        return False

    def _solve(self) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._seed
        solver.parameters.linearization_level = 2
        solver.parameters.max_deterministic_time = max(1e-3, self._work_left)
        if self._stop is not None:
            solver.parameters.max_time_in_seconds = max(1e-3, self._stop - time.monotonic())
        self._model.hint(self._incumbent.choice or self._start)
        status = solver.solve(self._model.program, _UntilGood(self._model, self._target_s))
        self._work_left -= solver.response_proto.deterministic_time
        return solver, status

    def _was_stopped(self) -> bool:
        return self._stop is not None and time.monotonic() >= self._stop

    def _note_bound(self, solver: cp_model.CpSolver) -> None:
        bound_s = self._model.seconds(solver.best_objective_bound)
        self._incumbent.raise_bound(bound_s, abs(bound_s), "ilp")

    def _add_rows(self, choice: Sequence[int], *, also_full: bool = False) -> bool:
        """Add rows for overfull time points; whether any was."""
        profile = self._incumbent.ledger.profile(choice)
        overfull = self._incumbent.overfull(profile) is not None
        if not overfull and not (also_full and profile.size):
            return False
        fresh = [p for p in np.argsort(-profile, kind="stable").tolist() if self._model.is_new(p)]
        if not also_full:
            fresh = [p for p in fresh if profile[p] > self._incumbent.limits[p]]
        for point in fresh[:ROWS_PER_ROUND]:
            self._model.add_memory_row(point)
        if overfull and not fresh:
            self._model.forbid(choice)
        return True
