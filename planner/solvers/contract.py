"""What every solver takes and gives, and what a run has found and used so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self, TypeAlias

import numpy as np

from planner.problem import ROUNDING, FloatArray, Problem
from planner.solvers.ledger import Ledger

Proof: TypeAlias = Literal["optimal", "bounded", "infeasible", "none"]

Progress: TypeAlias = Callable[[str, float, float], None]
"""Called as `progress(what happened, best cost in seconds, best bound in seconds)`."""
ENTRIES_PER_EFFORT = 1 << 31
"""Table entries that one unit of effort may visit: two to three seconds on one 2020s core."""
ENTRIES_PER_NODE = 1 << 11
"""What one node costs outside the tables, in table entries: two microseconds."""
PROVEN_GAP = 1e-9
"""Relative gap below which cost and bound are the same number, computed in another order."""


class ProblemTooLargeError(ValueError):
    """A solver that tries everything was given too much to try."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a solver may do. The same effort and seed give the same answer anywhere."""

    effort: int = 1
    """Work, not seconds: 1 or more; twice the effort may take twice as long."""
    deadline_s: float | None = None
    """Emergency brake, seconds of wall clock from the call; `None` for none."""
    seed: int = 0
    """Start of every random choice."""
    threads: int = 1
    """Threads that native libraries may use."""
    enough: float = 0.0
    """Relative gap with which a solver may leave an answer as it is; it has its own where that is
    wider."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The answer of a solver."""

    choice: tuple[int, ...] | None
    """One candidate per node. It fits if `proof` is optimal or bounded; otherwise it is the choice
    with the least peak that was seen, for explanation only."""
    cost_s: float
    """`Problem.cost_s(choice)`; infinite without a choice."""
    bound_s: float
    """No choice that fits costs less; infinite if none fits."""
    proof: Proof
    """`optimal`: cost equals bound; `bounded`: it fits, and the gap is known; `infeasible`: nothing
    fits; `none`: nothing that fits was found, nor was it shown that nothing does."""
    peak_bytes: float
    """`Problem.peak_bytes(choice)`. If infeasible and there is one time point, the least there is;
    with more of them, the least that was seen."""
    truncated: bool
    """Whether the deadline cut the work short, so that another machine may answer differently."""
    interrupted: bool = False
    """Whether the user did (Ctrl-C); this is the best until then."""
    log: tuple[str, ...] = ()
    """What was done, in order, for people."""

    @property
    def is_answer(self) -> bool:
        """Whether `choice` fits in memory."""
        return self.proof in {"optimal", "bounded"}

    @property
    def gap(self) -> float:
        """Relative distance of cost and bound: 0.01 means at most 1 % above the optimum."""
        if not self.is_answer:
            return float("inf")
        return max(0.0, self.cost_s - self.bound_s) / max(abs(self.cost_s), 1e-300)


class Solver(Protocol):
    """Finds a choice for a problem."""

    @property
    def name(self) -> str:
        """By which it is asked for."""
        ...

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve within the budget; never raise because the problem is hard."""
        ...


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

    @classmethod
    def of(cls, problem: Problem, progress: Progress | None = None) -> Self:
        """Nothing is known yet of a problem with its own limit."""
        limits = np.full(problem.time_points, float(problem.memory_limit_bytes))
        return cls(Ledger(problem), limits, progress)

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
