"""What a run has found and what it has used: best answer, best bound, work, time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from planner.problem import ROUNDING, FloatArray, Problem
from planner.solvers.contract import Budget, Progress, Proof, Solution
from planner.solvers.ledger import Ledger

ENTRIES_PER_EFFORT = 1 << 31
"""Table entries that one unit of effort may visit: two to three seconds on one 2020s core."""
ENTRIES_PER_NODE = 1 << 11
"""What one node costs outside the tables, in table entries: two microseconds."""
PROVEN_GAP = 1e-9
"""Relative gap below which cost and bound are the same number, computed in another order."""


class Meter:
    """Counts work, so that the answer depends on the effort and not on the machine."""

    def __init__(self, budget: Budget) -> None:
        self.effort = max(1, budget.effort)
        self.seed = budget.seed
        self.truncated = False
        self._left = self.effort * ENTRIES_PER_EFFORT
        self._reserve = 0.0
        self._stop = math.inf
        if budget.deadline_s is not None:
            self._stop = time.monotonic() + budget.deadline_s

    def charge(self, entries: int, nodes: int) -> None:
        self._left -= entries + ENTRIES_PER_NODE * nodes

    def reserve(self, share: float) -> None:
        """Keep a share of the work left for later; 0 releases it."""
        self._reserve = share * self._left

    @property
    def left(self) -> int:
        """Entries that may still be visited."""
        return max(0, self._left)

    @property
    def deadline_s(self) -> float | None:
        """Seconds of wall clock that are left, if they are limited."""
        return None if math.isinf(self._stop) else max(0.0, self._stop - time.monotonic())

    @property
    def is_spent(self) -> bool:
        """Whether to stop; remembers if it was the clock that said so."""
        if time.monotonic() >= self._stop:
            self.truncated = True
        return self.truncated or self._left <= self._reserve


class Incumbent:
    """The best answer that fits, the best bound, and a line in the log for each step."""

    def __init__(
        self, ledger: Ledger, limits: FloatArray, progress: Progress | None = None
    ) -> None:
        self.ledger = ledger
        self.limits = limits
        self.problem: Problem = ledger.problem
        self.choice: tuple[int, ...] | None = None
        self.cost_s = math.inf
        self.bound_s = -math.inf
        self.leanest: tuple[int, ...] | None = None
        self.least_excess_bytes = math.inf
        self.infeasible = False
        self.prices: FloatArray | None = None
        """Seconds per byte at each time point with which the bound was found, if so."""
        self.pool: dict[tuple[int, ...], None] = {}
        """Choices that were the best under some prices, whether they fit or not."""
        self.log: list[str] = []
        self._progress = progress

    def offer(self, choice: Sequence[int], label: str) -> FloatArray:
        """Keep a choice if it fits and is cheaper; return its memory profile."""
        profile = self.ledger.profile(choice)
        excess = float((profile - self.limits).max(initial=-math.inf))
        if self.leanest is None or excess < self.least_excess_bytes:
            self.leanest, self.least_excess_bytes = tuple(choice), excess
        if self.overfull(profile) is None:
            cost_s = self.problem.cost_s(choice)
            if cost_s < self.cost_s:
                self.choice, self.cost_s = tuple(choice), cost_s
                self._report(label)
        return profile

    def overfull(self, profile: FloatArray) -> int | None:
        """Time point with the largest excess over the limit, if any."""
        if not profile.size:
            return None
        excess = profile - self.limits * (1.0 + ROUNDING)
        point = int(excess.argmax())
        return point if excess[point] > 0 else None

    def raise_bound(self, bound_s: float, scale: float, label: str) -> None:
        """Note a lower bound, less the rounding of sums whose terms are as large as `scale`."""
        safe = bound_s - 1e-12 * abs(scale)
        if safe > self.bound_s:
            self.bound_s = safe
            self._report(label)

    @property
    def gap(self) -> float:
        """Relative distance between the best answer and the best bound."""
        if self.choice is None:
            return math.inf
        return max(0.0, self.cost_s - self.bound_s) / max(abs(self.cost_s), 1e-300)

    @property
    def is_proven(self) -> bool:
        return self.infeasible or self.gap <= PROVEN_GAP

    def note(self, line: str) -> None:
        self.log.append(line)

    def solution(self, *, truncated: bool) -> Solution:
        """What is known now."""
        choice, proof = self.choice, self._proof()
        if choice is None:
            choice = self.leanest
        cost_s = math.inf if choice is None else self.problem.cost_s(choice)
        bound_s = math.inf if self.infeasible else min(self.bound_s, cost_s)
        if proof == "optimal":
            bound_s = cost_s
        profile = None if choice is None else self.ledger.profile(choice)
        peak_bytes = math.inf if profile is None else float(profile.max(initial=0.0))
        return Solution(choice, cost_s, bound_s, proof, peak_bytes, truncated, log=tuple(self.log))

    def _proof(self) -> Proof:
        if self.infeasible:
            return "infeasible"
        if self.choice is None:
            return "none"
        return "optimal" if self.gap <= PROVEN_GAP else "bounded"

    def _report(self, label: str) -> None:
        self.log.append(f"{label}: cost {self.cost_s:.9g} s, bound {self.bound_s:.9g} s")
        if self._progress is not None:
            self._progress(label, self.cost_s, min(self.bound_s, self.cost_s))
