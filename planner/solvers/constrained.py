"""A problem within its limits: prices on memory, joined answers, prices split by layer."""

from __future__ import annotations

from planner.problem import FloatArray
from planner.solvers.memory_prices import PriceSearch
from planner.solvers.price_ladder import join
from planner.solvers.progress import Incumbent, Meter
from planner.solvers.relaxation import Relaxation
from planner.solvers.split import split_by_layer

SPLIT_PASSES = 25
"""Prices that splitting by layer tries in a large problem."""
SPLIT_SHARE = 0.3
"""Share of the work left that it may take."""


def solve_without_limit(relaxation: Relaxation, incumbent: Incumbent) -> FloatArray:
    """Offer the answer at price zero, note its bound, return its memory profile."""
    free = relaxation.solve()
    label = "without a memory limit"
    profile = incumbent.offer(free.choice, label)
    incumbent.raise_bound(free.bound, abs(free.bound), label)
    return profile


def solve_within_limit(
    relaxation: Relaxation,
    incumbent: Incumbent,
    meter: Meter,
    profile: FloatArray,
) -> PriceSearch:
    """Offer answers that fit, starting from the profile of the one at price zero."""
    search = PriceSearch(relaxation, incumbent, meter)
    search.run(profile)
    fill(search)
    return search


def fill(search: PriceSearch) -> None:
    """Use up memory that one price for all layers leaves: offer answers in between."""
    join(search.incumbent, list(search.found))
    affordable = SPLIT_PASSES * search.pass_work <= SPLIT_SHARE * search.meter.left
    if affordable and not search.incumbent.is_proven and not search.meter.is_spent:
        split_by_layer(search)
