"""A problem with what holds it, and its best answers under questions of what if."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from planner.problem import Problem
from planner.restriction import IndexArray, original_choice, restricted
from planner.solvers import Budget, Solution, solver_by_name

BUFFER_ROUNDS = 2
"""Times that an answer is sought again because its communication groups need more buffers."""

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
class Posed:
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

    @property
    def limit_bytes(self) -> float:
        return self.problem.memory_limit_bytes

    def thorough(self) -> Posed:
        """The same, solved as a search does."""
        return replace(self, solver=THOROUGH)

    def without_limit(self) -> Posed:
        return self.with_limit(math.inf)

    def with_limit(self, nbytes: float) -> Posed:
        return replace(self, problem=replace(self.problem, memory_limit_bytes=nbytes))

    def without_hold(self, number: int) -> Posed:
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
        for index in edges_at(self.problem)[node]:
            u, v = self.problem.edges[index]
            other = v if u == node else u
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
        return self._limited(allowed, free)

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
        problem = replace(restricted(self.problem, allowed), memory_limit_bytes=limit_bytes)
        found = solver_by_name(self.solver).solve(problem, self.budget, None)
        if found.choice is None:
            return found
        return replace(found, choice=original_choice(allowed, found.choice))


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
    edges = (edge_s(problem, index, other) for index in edges_at(problem)[node])
    return math.fsum((node_s(problem, node, other), *edges))


@lru_cache(maxsize=4)
def edges_at(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """The edges of every node, in ascending order."""
    out: list[list[int]] = [[] for _ in problem.sizes]
    for index, ends in enumerate(problem.edges):
        for node in sorted(set(ends)):
            out[node].append(index)
    return tuple(map(tuple, out))
