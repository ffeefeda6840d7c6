"""A problem within its limits: prices on memory, joined answers, prices split by layer."""

from __future__ import annotations

from planner.problem import FloatArray
from planner.solvers.memory_prices import PriceSearch
from planner.solvers.price_ladder import join
from planner.solvers.progress import Incumbent, Meter
from planner.solvers.relaxation import Relaxation
from planner.solvers.split import split_by_layer


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
) -> None:
    """Offer answers that fit, starting from the profile of the one at price zero."""
    search = PriceSearch(relaxation, incumbent, meter)
    search.run(profile)
    join(incumbent, list(search.found))
    if not incumbent.is_proven and not meter.is_spent:
        split_by_layer(search)
