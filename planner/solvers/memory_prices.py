"""The memory limit as a price on bytes: a bound, and the choices on either side of the limit.

The least priced cost, less the price of the limit itself, is a lower bound for every price
(Lagrangian relaxation; H. Everett, Operations Research 11(3), 1963). As a function of one price it
is concave and piecewise linear, so that the crossing of the two best known pieces leads to its top.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np

from planner.problem import ROUNDING, FloatArray
from planner.solvers.contract import Incumbent, Meter
from planner.solvers.ledger import Prices
from planner.solvers.relaxation import Relaxation, Relaxed

Choice: TypeAlias = tuple[int, ...]

PASSES_PER_POINT = 14
"""Prices tried for one time point; the top is mostly found after 6 to 10."""
CLOSE = 1e-4
"""Relative gain of the bound that is not worth a price at effort 1; effort e stops at 1/e of it."""
FIRST_SHARE = 0.1
"""The first price makes the memory in use cost this share of the time."""
GROWTH = 16.0
"""Factor between the prices that are tried until one fits."""
STEP_SHARE, STEP = 0.01, 8.0
"""The same for bisection."""
RAISES = HALVINGS = 7
"""Times that bisection raises a price, and tries one between two others."""
SPLICES = 3
"""Answers that need too much memory and are joined with the one that fits."""
NEAR = 1e-4
"""Relative distance from the best price at which its two answers are told apart."""
DEARER = (1.0 + NEAR, 1.02, 1.1, 1.5, 4.0, 30.0)
"""Factors on the best prices, tried until the answer fits everywhere."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A price for one time point, and what it leads to."""

    point: int
    """The time point."""
    price: float
    """Seconds per byte; infinite when time does not count."""
    cost: float
    """Seconds, with what is paid at the other time points."""
    nbytes: float
    """Bytes at the time point."""
    profile: FloatArray
    """Bytes at all time points."""


class PriceSearch:
    """Raises the prices of overfull time points, one at a time."""

    rounds: ClassVar[int] = 6
    """Times that the price of a time point is adjusted, per unit of effort."""
    lean_rounds: ClassVar[int] = 12
    """Times that the least memory is sought with other weights of the time points."""

    def __init__(self, relaxation: Relaxation, incumbent: Incumbent, meter: Meter) -> None:
        self.relaxation = relaxation
        self.incumbent = incumbent
        self.meter = meter
        self.prices: FloatArray = np.zeros_like(incumbent.limits)
        self.found: dict[tuple[int, ...], FloatArray] = {}
        """Choices that were the best under some price, and their profiles."""

    def run(self, profile: FloatArray) -> None:
        """Find prices, starting from the profile of the answer without prices."""
        for _ in range(self.rounds * self.meter.effort):
            point = self.incumbent.overfull(profile)
            if point is None or self.meter.is_spent or self.incumbent.is_proven:
                break
            adjusted = self._adjust(point, profile)
            if adjusted is None:
                break
            profile = adjusted
        if self.incumbent.choice is None:
            self._seek_lean(profile)

    def solve(self, prices: Prices, label: str) -> tuple[FloatArray, tuple[int, ...]]:
        """Solve under prices; note the bound and the answer."""
        relaxed = self.relaxation.solve(prices)
        profile = self.note(prices, relaxed, label)
        if prices.later_per_byte is None:
            self.found[relaxed.choice] = profile
            self.incumbent.pool[relaxed.choice] = None
        return profile, relaxed.choice

    def note(self, prices: Prices, relaxed: Relaxed, label: str) -> FloatArray:
        """Offer a choice that was found under prices and note its bound; return its profile."""
        if prices.later_per_byte is None:
            charge = float(prices.per_byte @ self.incumbent.limits)
            before = self.incumbent.bound_s
            self._note_bound(relaxed.bound, charge, prices.time_weight, label)
            if self.incumbent.bound_s > before:
                self.incumbent.prices = prices.per_byte
        return self.incumbent.offer(relaxed.choice, label)

    def _note_bound(self, least: float, charge: float, time_weight: float, label: str) -> None:
        if time_weight == 1.0:
            self.incumbent.raise_bound(least - charge, abs(least) + charge, label)
        elif time_weight == 0.0 and least > charge + ROUNDING * (abs(least) + charge):
            self.incumbent.infeasible = True
            self.incumbent.note(
                f"{label}: no choice fits; the tightest time points need {least:.6g} bytes or more "
                f"and have {charge:.6g}"
            )

    def _adjust(self, point: int, profile: FloatArray) -> FloatArray | None:  # noqa: ARG002
        """Climb the bound along the price of one time point and keep the best price; the profile
        of the answer that fits there, if there is one.
        """
        low = self._side(point, Prices(self.prices))
        limit = float(self.incumbent.limits[point])
        if low.nbytes <= limit:
            low = self._side(point, self._with(point, 0.0))
            if low.nbytes <= limit:
                self.prices[point] = 0.0
                return low.profile
        high = self._first_that_fits(point, low)
        return None if high is None else self._climb(point, low, high).profile

    def _first_that_fits(self, point: int, low: Side) -> Side | None:
        limit = float(self.incumbent.limits[point])
        price = FIRST_SHARE * max(abs(low.cost), 1e-9) / max(low.nbytes, 1e-9)
        price = max(price, 2.0 * low.price)
        for attempt in range(6):
            side = self._side(point, self._with(point, price))
            if side.nbytes <= limit:
                return side
            if attempt == 2 and self._leanest(point) is None:
                return None
            price *= GROWTH
        return self._leanest(point)

    def _leanest(self, point: int) -> Side | None:
        """The least memory at one time point, if that fits there."""
        only = np.zeros_like(self.prices)
        only[point] = 1.0
        side = self._side(point, Prices(only, time_weight=0.0))
        return side if side.nbytes <= self.incumbent.limits[point] else None

    def _climb(self, point: int, low: Side, high: Side) -> Side:
        limit, streak = float(self.incumbent.limits[point]), 0
        for _ in range(PASSES_PER_POINT):
            crossing = price = _crossing(low, high)
            if abs(streak) >= 3 and low.price > 0 and math.isfinite(high.price):
                price = math.sqrt(low.price * high.price)
            if not low.price < price < high.price or self.meter.is_spent:
                break
            if self._is_close(low, crossing):
                break
            middle = self._side(point, self._with(point, price))
            at_top = price == crossing and _is_on(low, middle, price)
            if middle.nbytes <= limit:
                high, streak = middle, max(streak, 0) + 1
            elif not at_top:
                low, streak = middle, min(streak, 0) - 1
            if at_top:
                break
        price = _crossing(low, high)
        self.prices[point] = price if low.price <= price <= high.price else high.price
        return high

    def _is_close(self, side: Side, crossing: float) -> bool:
        """Whether no price of the point can raise the bound by much."""
        others = self.prices.copy()
        others[side.point] = 0.0
        excess = side.nbytes - float(self.incumbent.limits[side.point])
        top = side.cost + crossing * excess - float(others @ self.incumbent.limits)
        return top - self.incumbent.bound_s <= CLOSE / self.meter.effort * abs(top)

    def _with(self, point: int, price: float) -> Prices:
        per_byte = self.prices.copy()
        per_byte[point] = price
        return Prices(per_byte)

    def _side(self, point: int, prices: Prices) -> Side:
        profile, choice = self.solve(prices, "memory price")
        others = self.prices.copy()
        others[point] = 0.0
        cost = self.incumbent.problem.cost_s(choice) + float(others @ profile)
        price = float(prices.per_byte[point]) if prices.time_weight else math.inf
        return Side(point, price, cost, float(profile[point]), profile)

    def _seek_lean(self, profile: FloatArray) -> None:
        """Look for any choice that fits: add weight where the least weighted memory is too much."""
        weights = np.zeros_like(self.prices)
        for _ in range(self.lean_rounds * self.meter.effort):
            point = self.incumbent.overfull(profile)
            if point is None or self.meter.is_spent or self.incumbent.infeasible:
                return
            weights[point] += 1.0
            lean = Prices(weights / weights.sum(), time_weight=0.0)
            profile, _ = self.solve(lean, "least memory")


def _crossing(low: Side, high: Side) -> float:
    """Price at which both sides cost the same."""
    return (high.cost - low.cost) / max(low.nbytes - high.nbytes, 1e-300)


def _is_on(low: Side, middle: Side, price: float) -> bool:
    """Whether a third choice is no better at the crossing: the top of the bound."""
    known = low.cost + price * low.nbytes
    return middle.cost + price * middle.nbytes >= known - 1e-10 * abs(known)


class PriceBisection(PriceSearch):
    """The same for relaxations whose answers are no optimum under the prices.

    `PriceSearch` reads the next price off two answers, which misleads it there. Here the price of
    an overfull time point is raised until the memory fits, and then lowered again by halves,
    whatever lies between.
    """

    rounds: ClassVar[int] = 3
    lean_rounds: ClassVar[int] = 6

    def _adjust(self, point: int, profile: FloatArray) -> FloatArray:
        """Find the least price at which a time point is not overfull."""
        limit = float(self.incumbent.limits[point])
        low, price = float(self.prices[point]), self._first_price(point, profile)
        for _ in range(RAISES):
            found = self._profile_at(point, price)
            if found[point] <= limit or self.meter.is_spent:
                break
            low, price, profile = price, STEP * price, found
        else:
            return profile
        high, profile = price, found
        for _ in range(HALVINGS):
            if self.meter.is_spent:
                break
            price = math.sqrt(low * high) if low > 0 else high / STEP
            found = self._profile_at(point, price)
            if found[point] <= limit:
                high, profile = price, found
            else:
                low = price
        self.prices[point] = high
        return profile

    def _first_price(self, point: int, profile: FloatArray) -> float:
        known = float(self.prices[point])
        if known > 0:
            return STEP * known
        scale = max(abs(self.incumbent.bound_s), 1e-9)
        return STEP_SHARE * scale / max(float(profile[point]), 1e-9)

    def _profile_at(self, point: int, price: float) -> FloatArray:
        return self.solve(self._with(point, price), "memory price")[0]


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
            offer = partial(_joined, incumbent, fast, lean, fast_first)
            _bisect(incumbent, 0, len(fast), offer)


def _joined(
    incumbent: Incumbent, fast: Choice, lean: Choice, fast_first: bool, count: int
) -> FloatArray:
    """Offer the choice with so many nodes of the fast one; its profile."""
    if fast_first:
        joined = (*fast[:count], *lean[count:])
    else:
        joined = (*lean[: len(lean) - count], *fast[len(fast) - count :])
    return incumbent.offer(joined, "joined answers")


def split_by_layer(search: PriceSearch) -> None:
    """Offer the answers in which only some of the layers save memory.

    Under one price all equal layers switch to less memory at the same moment, and the answer jumps
    over the limit. If the nodes before position k pay more than those after it, k decides how many
    layers have switched; both directions are tried.
    """
    high = _prices_that_fit(search)
    if high is None:
        return
    low, nodes = search.prices * (1.0 - NEAR), len(search.incumbent.problem.node_table_of)
    split = partial(_split, search, high, low)
    _bisect(search.incumbent, nodes, 0, split, lambda: search.meter.is_spent)
    split = partial(_split, search, low, high)
    _bisect(search.incumbent, 0, nodes, split, lambda: search.meter.is_spent)


def _split(search: PriceSearch, before: FloatArray, after: FloatArray, position: int) -> FloatArray:
    return search.solve(Prices(before, after, position), "split by layer")[0]


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
    incumbent: Incumbent,
    fitting: int,
    overfull: int,
    profile_at: Callable[[int], FloatArray],
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Find the position next to one that is overfull at which the memory fits."""
    while abs(fitting - overfull) > 1 and not is_over():
        position = (fitting + overfull) // 2
        if incumbent.overfull(profile_at(position)) is None:
            fitting = position
        else:
            overfull = position


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
