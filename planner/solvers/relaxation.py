"""The problem without its memory limit, under given prices on memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from planner.problem import Problem
from planner.solvers.buckets import Plan, make_plan
from planner.solvers.elimination import compile_program, run_program
from planner.solvers.ledger import Ledger, Prices
from planner.solvers.progress import Meter
from planner.solvers.reuse import Reuse
from planner.solvers.twins import Twins

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
        problem = ledger.problem
        program = compile_program(plan, problem.node_table_of, problem.edge_table_of)
        self.work = program.work
        """Table entries that one pass visits, prices apart."""
        self.kept = program.kept
        """Table entries that one pass holds."""

    def solve(self, prices: Prices | None = None) -> Relaxed:
        numbers, expansion = self._twins.collapsed(self._ledger.numbers(prices))
        program = compile_program(self._plan, numbers.vector_of, numbers.matrix_of)
        self._meter.charge(program.work, self._plan.nodes)
        result = run_program(program, numbers, self._reuse)
        return Relaxed(expansion.choice(result.choice), result.value)


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
