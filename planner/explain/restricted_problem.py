"""A problem with what holds it, its best answers under questions of what if, and what a byte of
memory is worth there: the prices of the relaxation at the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from planner.explain.guided import (
    Guide,
    Guided,
    at_prices,
    changed_area,
    edge_s,
    fixed_outside,
    local_s,
)
from planner.problem import FloatArray, Problem
from planner.reduction.restriction import IndexArray, restricted
from planner.solvers import Budget, Solution, best_among
from planner.solvers.conditioning import LARGEST_BUCKET, ConditionedRelaxation
from planner.solvers.contract import Incumbent, Meter
from planner.solvers.ledger import Ledger
from planner.solvers.memory_prices import PriceSearch, solve_without_limit
from planner.solvers.relaxation import exact_relaxation

BUFFER_ROUNDS = 2
"""Times that an answer is sought again because its communication groups need more buffers."""

AROUND = 4
"""Edges from what changes within which costs are compared anew."""
MOST_AROUND = 0.5
"""Share of all nodes up to which that is worth while."""

QUICK = "dynamic_programming"
"""Exact without a binding limit; within one it answers soon, and with a bound."""
THOROUGH = "portfolio"
"""Closes the gap within a limit, which takes longer."""

Forced: TypeAlias = Mapping[int, IndexArray]
"""Nodes with the only candidates that they may have."""

NOTHING: Forced = MappingProxyType({})


def _no_excess(_: Sequence[int]) -> float:
    return 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """What the user asked of some nodes, such as a pin."""

    text: str
    """In the user's terms, such as `--pin 'fc=((2,4),(4,1))'`."""
    allowed: Forced
    """The candidates that keep it."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The best choice under a question; costs and memory as the problem itself counts them."""

    choice: tuple[int, ...]
    cost_s: float
    bound_s: float
    """No choice that fits and follows the question costs less; infinite if none fits."""
    peak_bytes: float
    """With the buffers of communication groups beyond the reserve."""
    fits: bool
    """Whether it can be done within memory; else it is the smallest that was found."""
    proof: str

    @property
    def value_s(self) -> float:
        """Its cost; infinite where nothing fits."""
        return self.cost_s if self.fits else math.inf


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedProblem:
    """A problem, the holds on it, and how it is solved."""

    problem: Problem
    """With its limit, and without the holds."""
    holds: tuple[Hold, ...] = ()
    kept: tuple[IndexArray, ...] | None = None
    """Candidates that compute nothing again: without a limit the best choice is among them. None
    takes all."""
    buffer_excess_bytes: Callable[[Sequence[int]], float] = _no_excess
    """Memory that a choice needs beside the problem's."""
    impossible_s: float | None = None
    """Cost of a pair that stands for what cannot be; None if everything can."""
    solver: str = QUICK
    budget: Budget = field(default_factory=Budget)
    guide: Guide | None = None
    """Where given, answers within the limit are sought near it; a solver is asked only if they may
    be far from the best."""
    within: tuple[IndexArray, ...] | None = None
    """Where given, what is compared at the prices of the guide has only these candidates."""

    @property
    def limit_bytes(self) -> float:
        return self.problem.memory_limit_bytes

    def thorough(self) -> RestrictedProblem:
        """The same, solved as a search does."""
        return replace(self, solver=THOROUGH, guide=None)

    def settled(self, near: Answer, forced: Forced) -> Answer:
        """What a search finds with the same question, in place of an answer that was found soon;
        the latter where a search finds nothing that fits.

        Raises:
            ValueError: a node is left no candidate; `is_allowed` tells.
        """
        whole = self.thorough().answer(forced)
        return whole if whole.fits else near

    def without_limit(self) -> RestrictedProblem:
        return self.with_limit(math.inf)

    def with_limit(self, nbytes: float) -> RestrictedProblem:
        problem = replace(self.problem, memory_limit_bytes=nbytes)
        return replace(self, problem=problem, guide=None, within=None)

    def without_hold(self, number: int) -> RestrictedProblem:
        return replace(self, holds=(*self.holds[:number], *self.holds[number + 1 :]))

    def is_allowed(self, forced: Forced) -> bool:
        """Whether the holds leave every node a candidate."""
        return all(len(own) for own in self.allowed(forced))

    def is_possible(self, choice: Sequence[int]) -> bool:
        """Whether a choice has no pair that cannot be."""
        return (
            not choice
            or self.impossible_s is None
            or all(
                edge_s(self.problem, index, choice) != self.impossible_s
                for index in range(len(self.problem.edges))
            )
        )

    def followed(self, choice: Sequence[int], node: int) -> tuple[int, ...]:
        """A choice in which the neighbours of a node that cannot stay go where it costs least."""
        out = list(choice)
        for index, other in self.problem.edges_at[node]:
            if edge_s(self.problem, index, out) == self.impossible_s:
                own = self.allowed()[other].tolist()
                out[other] = min(own, key=lambda c: (local_s(self.problem, out, other, c), c))
        return tuple(out)

    def answer(self, forced: Forced = NOTHING) -> Answer:
        """The best choice in which the forced nodes have one of their candidates.

        Without a limit first: that is exact, and where it fits it is the answer.

        Raises:
            ValueError: a node is left no candidate; `is_allowed` tells.
        """
        allowed = self.allowed(forced)
        lean = self._kept_of(allowed)
        free = self._solved(lean, math.inf)
        peak = self._peak(free.choice)
        if peak <= self.limit_bytes or not math.isfinite(self.limit_bytes):
            fits = self.is_possible(free.choice or ())
            return Answer(free.choice or (), free.cost_s, free.bound_s, peak, fits, free.proof)
        if self.guide is None:
            return self._limited(allowed, free)
        near = self._guided(self.guide, allowed, free, forced)
        return near or self._limited(allowed, free)

    def compared(self, forced: Forced) -> tuple[float, tuple[int, ...]]:
        """What the best choice costs, to be held against that under another question, and the
        choice; infinite where nothing fits.

        With a guide memory is paid for at its prices: two such costs differ as the best choices do
        that fit, but for what comes in jumps.
        """
        if self.guide is None:
            answer = self.answer(forced)
            return answer.value_s, answer.choice
        allowed = self.allowed(forced)
        if self.within is not None:
            both = (np.intersect1d(a, b) for a, b in zip(allowed, self.within, strict=True))
            allowed = [own if len(own) else a for own, a in zip(both, allowed, strict=True)]
        found = at_prices(self.problem, self.guide.per_byte, allowed)
        return found.cost_s, found.choice or ()

    def near_guide(self, choice: Sequence[int], asked: Forced) -> RestrictedProblem:
        """The same, compared with all as it is best at the prices but for where a choice differs
        from that, and around it; everywhere if it differs in much.
        """
        if self.guide is None:
            return self
        paid = self.guide.paid_choice
        area = changed_area(self.problem, choice, paid, asked, AROUND)
        if len(area) > MOST_AROUND * len(paid):
            return self
        return replace(self, within=tuple(fixed_outside(self.allowed(asked), area, paid)))

    def _guided(
        self, guide: Guide, allowed: Sequence[IndexArray], free: Solution, forced: Forced
    ) -> Answer | None:
        """An answer near the guide; None if a solver may know a much better one."""
        near = Guided(self.problem, guide, allowed, frozenset(forced))
        found = near.found(self._fits)
        if found is None:
            return None
        cost_s, bound_s = self.problem.cost_s(found), max(near.bound_s, free.bound_s)
        return Answer(found, cost_s, bound_s, self._peak(found), True, "bounded")

    def _fits(self, choice: tuple[int, ...]) -> bool:
        fits = self.problem.fits(self.problem.peak_bytes(choice))
        return fits and self.problem.fits(self._peak(choice)) and self.is_possible(choice)

    def _limited(self, allowed: Sequence[IndexArray], free: Solution) -> Answer:
        limit, found, peak = self.limit_bytes, free, math.inf
        for _ in range(1 + BUFFER_ROUNDS):
            found = self._solved(allowed, limit)
            excess = self.buffer_excess_bytes(found.choice or ())
            peak = found.peak_bytes + excess
            if not found.is_answer or self.problem.fits(peak):
                break
            limit = self.limit_bytes - excess
        fits = found.is_answer and self.problem.fits(peak) and self.is_possible(found.choice or ())
        bound = max(found.bound_s, free.bound_s) if limit == self.limit_bytes else free.bound_s
        return Answer(found.choice or (), found.cost_s, bound, peak, fits, found.proof)

    def allowed(self, forced: Forced = NOTHING) -> list[IndexArray]:
        """The candidates that the holds and the question leave every node."""
        out = [np.arange(size) for size in self.problem.sizes]
        for own in (*(hold.allowed for hold in self.holds), forced):
            for node, candidates in own.items():
                out[node] = np.intersect1d(out[node], candidates)
        return out

    def _kept_of(self, allowed: Sequence[IndexArray]) -> list[IndexArray]:
        if self.kept is None:
            return list(allowed)
        both = (np.intersect1d(a, b) for a, b in zip(allowed, self.kept, strict=True))
        return [own if len(own) else a for own, a in zip(both, allowed, strict=True)]

    def _peak(self, choice: tuple[int, ...] | None) -> float:
        if choice is None:
            return math.inf
        return self.problem.peak_bytes(choice) + self.buffer_excess_bytes(choice)

    def _solved(self, allowed: Sequence[IndexArray], limit_bytes: float) -> Solution:
        if not all(len(own) for own in allowed):
            raise ValueError("a node is left no candidate")
        problem = replace(self.problem, memory_limit_bytes=limit_bytes)
        return best_among(problem, allowed, self.solver, self.budget)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPrices:
    """Seconds that a byte more would save, where the limit binds."""

    per_byte: FloatArray
    """At each time point, shape (T,); 0 where memory is left."""

    @property
    def per_byte_s(self) -> float:
        """For a byte more at all times: of a step, seconds per byte of the limit."""
        return float(self.per_byte.sum())

    def charge_s(self, problem: Problem, choice: Sequence[int], node: int) -> float:
        """What the memory of a node and of the copies at its edges costs at these prices."""
        running = np.concatenate(([0.0], np.cumsum(self.per_byte)))
        edges = [edge for edge, _ in problem.edges_at[node]]
        return math.fsum(
            (running[end] - running[start]) * nbytes
            for start, end, nbytes in problem.held(choice, [node], edges)
        )


def memory_prices(posed: RestrictedProblem) -> MemoryPrices:
    """The prices at the limit of a problem; zero where the fastest choice fits."""
    problem = posed.problem
    none = MemoryPrices(np.zeros(problem.time_points))
    if not math.isfinite(posed.limit_bytes) or posed.without_limit().answer().peak_bytes <= (
        posed.limit_bytes
    ):
        return none
    held = replace(restricted(problem, posed.allowed()), memory_limit_bytes=posed.limit_bytes)
    ledger, meter = Ledger(held), Meter(posed.budget)
    incumbent = Incumbent(ledger, np.full(held.time_points, posed.limit_bytes))
    relaxation = exact_relaxation(ledger, meter, 2 * LARGEST_BUCKET) or ConditionedRelaxation(
        ledger, meter, LARGEST_BUCKET
    )
    search = PriceSearch(relaxation, incumbent, meter)
    search.run(solve_without_limit(relaxation, incumbent))
    return MemoryPrices(np.array(search.prices, dtype=np.float64))
