"""Prices on memory for solvers whose answers are no optimum under the prices.

`PriceSearch` reads the next price off two answers, which is quick where each is the best under its
price and misled where it is not. Here the price of an overfull time point is raised until the
memory fits, and then lowered again by halves, whatever lies between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from planner.problem import FloatArray
from planner.solvers.ledger import Prices
from planner.solvers.memory_prices import PriceSearch
from planner.solvers.progress import Incumbent, Meter
from planner.solvers.relaxation import Relaxation

Choice = tuple[int, ...]

ROUNDS = 3
"""Times that the price of a time point is adjusted, per unit of effort."""
FIRST_SHARE = 0.01
"""The first price makes the memory in use cost this share of the time."""
GROWTH = 8.0
RAISES = 7
HALVINGS = 7
"""Times that a price is raised, and tried between two others."""
SPLICES = 3
"""Answers that need too much memory and are joined with the one that fits."""
LEAN_ROUNDS = 6
"""Times that the least memory is sought with other weights of the time points."""


def climb(relaxation: Relaxation, incumbent: Incumbent, meter: Meter, profile: FloatArray) -> None:
    """Offer answers within the limit and note bounds, from the profile of one without prices."""
    search = PriceSearch(relaxation, incumbent, meter)
    for _ in range(ROUNDS * meter.effort):
        point = incumbent.overfull(profile)
        if point is None or meter.is_spent or incumbent.is_proven:
            break
        profile = _adjust(search, point, profile)
    if incumbent.choice is None:
        _seek_lean(search, profile)


def _adjust(search: PriceSearch, point: int, profile: FloatArray) -> FloatArray:
    """Find the least price at which a time point is not overfull; its profile, or the last one."""
    limit = float(search.incumbent.limits[point])
    low, price = float(search.prices[point]), _first_price(search, point, profile)
    for _ in range(RAISES):
        found = _at(search, point, price)
        if found[point] <= limit or search.meter.is_spent:
            break
        low, price, profile = price, GROWTH * price, found
    else:
        return profile
    high, profile = price, found
    for _ in range(HALVINGS):
        if search.meter.is_spent:
            break
        price = math.sqrt(low * high) if low > 0 else high / GROWTH
        found = _at(search, point, price)
        if found[point] <= limit:
            high, profile = price, found
        else:
            low = price
    search.prices[point] = high
    return profile


def _first_price(search: PriceSearch, point: int, profile: FloatArray) -> float:
    known = float(search.prices[point])
    if known > 0:
        return GROWTH * known
    scale = max(abs(search.incumbent.bound_s), 1e-9)
    return FIRST_SHARE * scale / max(float(profile[point]), 1e-9)


def _at(search: PriceSearch, point: int, price: float) -> FloatArray:
    prices = search.prices.copy()
    prices[point] = price
    profile, _ = search.solve(Prices(prices), "memory price")
    return profile


def _seek_lean(search: PriceSearch, profile: FloatArray) -> None:
    """Look for any choice that fits: add weight where there is too much."""
    weights = np.zeros_like(search.prices)
    for _ in range(LEAN_ROUNDS * search.meter.effort):
        point = search.incumbent.overfull(profile)
        if point is None or search.meter.is_spent or search.incumbent.infeasible:
            return
        weights[point] += 1.0
        lean = Prices(weights / weights.sum(), time_weight=0.0)
        profile, _ = search.solve(lean, "least memory")


def join(incumbent: Incumbent, known: Sequence[Choice]) -> None:
    """Offer answers of which some layers are of one that fits and the rest of a faster one.

    Under one price all equal layers change at once, so that much memory may be left.
    """
    cost_s = incumbent.problem.cost_s
    faster = [choice for choice in known if cost_s(choice) < incumbent.cost_s]
    for fast in sorted(faster, key=cost_s, reverse=True)[:SPLICES]:
        lean = incumbent.choice
        if lean is None:
            return
        for fast_first in (False, True):
            _bisect(incumbent, fast, lean, fast_first=fast_first)


def _bisect(incumbent: Incumbent, fast: Choice, lean: Choice, *, fast_first: bool) -> None:
    """Find how many nodes may be those of the fast answer."""
    fitting, overfull = 0, len(fast)
    while overfull - fitting > 1:
        count = (fitting + overfull) // 2
        if fast_first:
            joined = (*fast[:count], *lean[count:])
        else:
            joined = (*lean[: len(lean) - count], *fast[len(fast) - count :])
        profile = incumbent.offer(joined, "joined answers")
        if incumbent.overfull(profile) is None:
            fitting = count
        else:
            overfull = count
