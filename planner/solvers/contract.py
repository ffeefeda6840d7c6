"""What every solver takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeAlias

from planner.problem import Problem

Proof: TypeAlias = Literal["optimal", "bounded", "infeasible", "none"]

Progress: TypeAlias = Callable[[str, float, float], None]
"""Called as `progress(what happened, best cost in seconds, best bound in seconds)`."""


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

    name: ClassVar[str]

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve within the budget; never raise because the problem is hard."""
        ...
