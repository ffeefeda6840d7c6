"""The problem without its memory limit, under given prices on memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.problem import FloatArray, Problem
from planner.solvers.buckets import Plan, make_plan
from planner.solvers.elimination import Numbers, Program, compile_program, run_program
from planner.solvers.ledger import Ledger, Prices
from planner.solvers.progress import Meter
from planner.solvers.reuse import Reuse
from planner.solvers.twins import Twins

IntTuple: TypeAlias = tuple[int, ...]
Allowed: TypeAlias = Mapping[int, NDArray[np.bool_]]
"""Which candidates some nodes may choose."""

KEPT_PROGRAMS = 8
"""Programs that are kept for the next pass."""
EXACT_SHARE = 0.25
"""Share of the work left that a single exact pass may take."""
MAX_KEPT = 1 << 26
"""Table entries that may be held: half a gibibyte."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """Answer to one set of prices."""

    choice: tuple[int, ...]
    """One candidate per node; a minimiser if exact."""
    bound: float
    """No choice has a lower priced cost."""


class Relaxation(Protocol):
    """Solves the problem without its limit."""

    def solve(self, prices: Prices | None = None) -> Relaxed: ...


class ExactRelaxation:
    """Variable elimination; the order is found once and serves all prices."""

    def __init__(self, ledger: Ledger, meter: Meter, plan: Plan, twins: Twins) -> None:
        self._ledger = ledger
        self._twins = twins
        self._meter = meter
        self._plan = plan
        self._reuse = Reuse()
        self._programs: dict[tuple[IntTuple, IntTuple], Program] = {}
        problem = ledger.problem
        program = compile_program(plan, problem.node_table_of, problem.edge_table_of)
        self.work = program.work
        """Table entries that one pass visits, prices apart."""
        self.kept = program.kept
        """Table entries that one pass holds."""

    def solve(self, prices: Prices | None = None, allowed: Allowed | None = None) -> Relaxed:
        """Solve; nodes named in `allowed` only choose among those candidates."""
        numbers = _only(self._ledger.numbers(prices), allowed or {})
        numbers, expansion = self._twins.collapsed(numbers)
        program = self._program(tuple(numbers.vector_of), tuple(numbers.matrix_of))
        self._meter.charge(program.work, self._plan.nodes)
        result = run_program(program, numbers, self._reuse)
        return Relaxed(expansion.choice(result.choice), result.value)

    def _program(self, vector_of: IntTuple, matrix_of: IntTuple) -> Program:
        """Prices at the same time points leave the same nodes equal."""
        key = (vector_of, matrix_of)
        if key not in self._programs:
            if len(self._programs) == KEPT_PROGRAMS:
                del self._programs[next(iter(self._programs))]
            self._programs[key] = compile_program(self._plan, vector_of, matrix_of)
        return self._programs[key]


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedRelaxation:
    """The same where some nodes may only choose among some candidates."""

    exact: ExactRelaxation
    allowed: Allowed

    def solve(self, prices: Prices | None = None) -> Relaxed:
        return self.exact.solve(prices, self.allowed)


def _only(numbers: Numbers, allowed: Allowed) -> Numbers:
    """The numbers with no finite cost for other candidates."""
    if not allowed:
        return numbers
    vectors: list[FloatArray] = list(numbers.vectors)
    vector_of = list(numbers.vector_of)
    for node, mask in allowed.items():
        vectors.append(np.where(mask, vectors[vector_of[node]], np.inf))
        vector_of[node] = len(vectors) - 1
    return Numbers(vectors, numbers.matrices, vector_of, numbers.matrix_of)


def exact_relaxation(ledger: Ledger, meter: Meter, largest_bucket: int) -> ExactRelaxation | None:
    """Elimination, if no table is too large and one pass leaves most of the work for others."""
    problem = ledger.problem
    twins = Twins(problem)
    plan = make_plan(twins.sizes, problem.edges, give_up_above=largest_bucket)
    if plan.largest > largest_bucket:
        return None
    relaxation = ExactRelaxation(ledger, meter, plan, twins)
    fits = relaxation.kept <= MAX_KEPT and relaxation.work <= meter.left * EXACT_SHARE
    return relaxation if fits else None


def elimination_work(problem: Problem) -> int:
    """Table entries that exact elimination of a problem visits once."""
    plan = make_plan(Twins(problem).sizes, problem.edges)
    return compile_program(plan, problem.node_table_of, problem.edge_table_of).work
