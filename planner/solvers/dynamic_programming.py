"""The workhorse: exact elimination where the graph is narrow, under prices where memory binds.

Without a binding limit the answer of a narrow graph is optimal. With one, prices on memory give the
bound, and branches and joined answers come close to it. In wide graphs a few nodes are fixed
and improved, and mini-buckets give the bound.
"""

from __future__ import annotations

import math
from typing import ClassVar

from planner.problem import FloatArray, Problem
from planner.solvers.branch_and_bound import Branching
from planner.solvers.conditioning import LARGEST_BUCKET, ConditionedRelaxation
from planner.solvers.contract import Budget, Incumbent, Meter, Progress, Solution
from planner.solvers.ledger import Ledger, Prices
from planner.solvers.memory_prices import PriceSearch, solve_within_limit, solve_without_limit
from planner.solvers.neighbourhoods import improve
from planner.solvers.relaxation import ExactRelaxation, Relaxed, exact_relaxation

PRICED_PASSES = 12
"""Exact passes that must be affordable where prices are tried: 6 to 14 mostly find the best."""
LAST_SHARE = 0.5
"""The same for a single exact pass at the best prices."""
RESERVED_FOR_LIMIT = 0.75
"""Share of the work that the first answer leaves if there is a limit."""
RESERVED_SHARE = 0.5
"""Share of the work left that the search for prices leaves to the search for answers."""
SHOWN = 8
"""Fixed nodes that the log names."""
ENOUGH = 1e-3
"""Relative gap at which effort 1 tries nothing more; effort e stops at 1/e of it."""
HUB_CHOICES = 3
"""Choices of the fixed nodes for which answers within the limit are sought."""


class DynamicProgramming:
    """Variable elimination under memory prices."""

    name: ClassVar[str] = "dynamic_programming"

    def __init__(
        self, largest_exact: int = 2 * LARGEST_BUCKET, largest_conditioned: int = LARGEST_BUCKET
    ) -> None:
        """Set the entries of the largest bucket, without and with fixed nodes."""
        self._largest_exact = largest_exact
        self._largest_conditioned = largest_conditioned

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve; proofs are `optimal`, `bounded`, `infeasible` or, if nothing fits, `none`."""
        meter, incumbent = Meter(budget), Incumbent.of(problem, progress)
        exact = exact_relaxation(incumbent.ledger, meter, self._largest_exact)
        self.run(incumbent, meter, exact, max(ENOUGH / meter.effort, budget.enough))
        if not incumbent.is_proven:
            improve(incumbent, meter, budget.seed, max(ENOUGH, budget.enough * meter.effort))
        return incumbent.solution(truncated=meter.truncated)

    def run(
        self,
        incumbent: Incumbent,
        meter: Meter,
        exact: ExactRelaxation | None,
        enough: float | None = None,
    ) -> None:
        """Find answers and bounds for the whole.

        Args:
            incumbent: receives them.
            meter: counts the work.
            exact: elimination of the whole; None where that is too wide.
            enough: relative gap at which nothing more is tried.
        """
        ledger, problem = incumbent.ledger, incumbent.problem
        if exact is None:
            wide = self._conditioned(ledger, meter, incumbent)
            meter.reserve(0.0 if math.isinf(problem.memory_limit_bytes) else RESERVED_FOR_LIMIT)
            profile = solve_without_limit(wide, incumbent)
            meter.reserve(0.0)
        else:
            wide = None
            profile = solve_without_limit(exact, incumbent)
        if incumbent.overfull(profile) is not None:
            enough = ENOUGH / meter.effort if enough is None else enough
            self._fit((exact, wide), incumbent, meter, profile, enough)

    def _fit(
        self,
        relaxations: tuple[ExactRelaxation | None, ConditionedRelaxation | None],
        incumbent: Incumbent,
        meter: Meter,
        profile: FloatArray,
        enough: float,
    ) -> None:
        """Find answers within the limit."""
        exact, wide = relaxations
        if exact is not None and PRICED_PASSES * exact.work <= meter.left:
            search = PriceSearch(exact, incumbent, meter)
            search.run(profile)
            Branching(exact, incumbent, meter, enough).run(search)
            return
        if wide is None:
            wide = self._conditioned(incumbent.ledger, meter, incumbent)
        meter.reserve(RESERVED_SHARE)
        search = PriceSearch(wide, incumbent, meter)
        search.run(profile)
        meter.reserve(0.0)
        if _is_over(incumbent, meter):
            return
        best = Prices(search.prices)
        search.note(best, _thorough(exact, wide, meter, best), "best prices")
        for fixed in wide.at_recent_hubs(HUB_CHOICES):
            if _is_over(incumbent, meter):
                return
            profile = solve_without_limit(fixed, incumbent)
            solve_within_limit(fixed, incumbent, meter, profile)

    def _conditioned(
        self, ledger: Ledger, meter: Meter, incumbent: Incumbent
    ) -> ConditionedRelaxation:
        relaxation = ConditionedRelaxation(ledger, meter, self._largest_conditioned)
        shown = ", ".join(str(hub) for hub in relaxation.hubs[:SHOWN])
        rest = f" and {len(relaxation.hubs) - SHOWN} more" if len(relaxation.hubs) > SHOWN else ""
        incumbent.note(f"too wide for exact elimination: nodes {shown}{rest} are fixed one by one")
        return relaxation


def _is_over(incumbent: Incumbent, meter: Meter) -> bool:
    return incumbent.is_proven or meter.is_spent


def _thorough(
    exact: ExactRelaxation | None, wide: ConditionedRelaxation, meter: Meter, prices: Prices
) -> Relaxed:
    """The most thorough solution that the work left allows."""
    if exact is None or exact.work > LAST_SHARE * meter.left:
        return wide.solve_thoroughly(prices)
    relaxed = exact.solve(prices)
    wide.start_from(relaxed.choice)
    return relaxed
