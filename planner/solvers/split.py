"""Different prices for earlier and later nodes.

Under one price, all equal layers switch to less memory at the same moment, and the answer jumps
over the limit. If the nodes before position k pay more than those after it, k decides how many
layers have switched; both directions are tried.
"""

from __future__ import annotations

from planner.problem import FloatArray
from planner.solvers.ledger import Prices
from planner.solvers.memory_prices import PriceSearch

NEAR = 1e-4
"""Relative distance from the best price at which its two answers are told apart."""
DEARER = (1.0 + NEAR, 1.02, 1.1, 1.5, 4.0, 30.0)
"""Factors on the best prices, tried until the answer fits everywhere."""


def split_by_layer(search: PriceSearch) -> None:
    """Offer the answers in which only some of the layers save memory."""
    high = _prices_that_fit(search)
    if high is None:
        return
    low = search.prices * (1.0 - NEAR)
    for before, after in ((high, low), (low, high)):
        _bisect(search, before, after, first_is_dear=before is high)


def _prices_that_fit(search: PriceSearch) -> FloatArray | None:
    for factor in DEARER:
        if search.meter.is_spent:
            return None
        prices: FloatArray = search.prices * factor
        profile, _ = search.solve(Prices(prices), "dearer memory")
        if search.incumbent.overfull(profile) is None:
            return prices
    return None


def _bisect(
    search: PriceSearch, before: FloatArray, after: FloatArray, *, first_is_dear: bool
) -> None:
    """Find the position at which the answer just fits."""
    fitting, overfull = len(search.incumbent.problem.node_table_of), 0
    if not first_is_dear:
        fitting, overfull = overfull, fitting
    while abs(fitting - overfull) > 1 and not search.meter.is_spent:
        position = (fitting + overfull) // 2
        profile, _ = search.solve(Prices(before, after, position), "split by layer")
        if search.incumbent.overfull(profile) is None:
            fitting = position
        else:
            overfull = position
