"""What follows from a sweep: scaling, cost (`data/prices.yaml`), what finishes in time, and points
that no other beats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

import data
from planner.requests.errors import UserError
from planner.requests.option_texts import ROBUST
from planner.requests.sources import Document
from planner.whatif.axes import FACTORS, Place
from planner.whatif.sweep import Point
from topology.chips import chip_profile
from topology.errors import ClusterError
from topology.units import parse_watts

SECONDS_PER_DAY = 86_400.0


def tokens_of(point: Point) -> float:
    """What a step gets done: tokens, or samples where the model has none."""
    return point.result.tokens or point.result.samples


def rate_of(point: Point) -> float:
    """Work per second; 0 where nothing is planned."""
    return MEDIAN.rate(point)


def planned(points: Iterable[Point]) -> list[Point]:
    """Points with a plan."""
    return [point for point in points if point.result.is_planned]


@dataclass(frozen=True, slots=True)
class Ranking:
    """What decides between points: the estimated step, or the 75th percentile of its interval."""

    robust: bool = False
    unlike: float = 1.0
    """How many times its step counts for a point like which no published run is."""

    @classmethod
    def of(cls, rank: str, points: Iterable[Point]) -> Ranking:
        """That of `--rank`: where there is no evidence, the step counts for as much as where
        evidence is weakest among the points.
        """
        if rank != ROBUST:
            return cls()
        known = (p.result.upper_s / p.result.step_s for p in planned(points) if p.result.upper_s)
        return cls(robust=True, unlike=max(known, default=1.0))

    def step_s(self, point: Point) -> float:
        """Seconds that count for a point with a plan."""
        result = point.result
        if not self.robust:
            return result.step_s
        return result.step_s * self.unlike if result.upper_s is None else result.upper_s

    def rate(self, point: Point) -> float:
        """Work per second in them; 0 where nothing is planned."""
        if not point.result.is_planned or point.result.step_s <= 0:
            return 0.0
        return tokens_of(point) / self.step_s(point)


MEDIAN = Ranking()


def best_of(points: Iterable[Point], ranking: Ranking = MEDIAN) -> Point | None:
    """The point that gets most done in a second; of equal ones the one on fewest devices."""
    found = planned(points)
    return min(found, key=lambda p: (-ranking.rate(p), p.devices), default=None)


@dataclass(frozen=True, slots=True)
class Scaled:
    """One point of a scaling curve."""

    devices: int
    rate: float
    """Work per second."""
    speedup: float
    """Over the smallest number of devices with a plan."""
    efficiency: float
    """Work per second and device over that of the smallest number of devices."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Work per second over the number of devices, all else equal."""

    place: Place
    """What its points have in common."""
    points: tuple[Scaled, ...]
    """By number of devices; sizes without a plan are left out."""


def scaling(points: Sequence[Point]) -> tuple[Curve, ...]:
    """A curve for everything that is swept beside the devices."""
    found = []
    for place, group in along(points, "devices"):
        known = sorted(planned(group), key=lambda p: p.devices)
        if not known:
            continue
        first = known[0]
        curve = tuple(
            Scaled(
                p.devices,
                rate_of(p),
                rate_of(p) / rate_of(first),
                rate_of(p) / p.devices / (rate_of(first) / first.devices),
            )
            for p in known
        )
        found.append(Curve(place, curve))
    return tuple(found)


def along(points: Sequence[Point], name: str) -> Iterator[tuple[Place, list[Point]]]:
    """Points that differ along one axis alone, in the order of the sweep."""
    groups: dict[Place, list[Point]] = {}
    for point in points:
        groups.setdefault(point.place.without(name), []).append(point)
    yield from groups.items()


@dataclass(frozen=True, slots=True)
class Deadline:
    """Whether some tokens are done in some days."""

    tokens: float
    days: float
    point: Point | None
    """The fewest devices that do it, and of these the fastest; `None` if no point does."""
    takes_days: float
    """By that point, or by the fastest one if none does it."""
    fastest: Point | None
    needed_devices: int | None
    """Where no point does it: devices that would, if the fastest scaled perfectly."""


def deadline(
    points: Sequence[Point], tokens: float, days: float, ranking: Ranking = MEDIAN
) -> Deadline:
    """The fewest devices that finish so many tokens in so many days.

    Models without tokens count samples.
    """
    needed = tokens / (days * SECONDS_PER_DAY)
    able = [point for point in planned(points) if ranking.rate(point) >= needed]
    chosen = min(able, key=lambda p: (p.devices, -ranking.rate(p)), default=None)
    fastest = best_of(points, ranking)
    shown = chosen or fastest
    takes = math.inf if shown is None else tokens / ranking.rate(shown) / SECONDS_PER_DAY
    more = None
    if chosen is None and fastest is not None:
        more = math.ceil(fastest.devices * needed / ranking.rate(fastest))
    return Deadline(tokens, days, chosen, takes, fastest, more)


OBJECTIVES = ("seconds", "devices", "memory", "price", *FACTORS)
"""What counts, less is better: seconds of a unit of work, devices, bytes on a device, price of a
unit of work, and what the machine is assumed to have more of than it has, for which no price is
known. A unit of work is a token, or a sample where the model has none."""


def objectives(point: Point, prices: Prices, ranking: Ranking = MEDIAN) -> tuple[float, ...]:
    """What a planned point takes, as `OBJECTIVES` names it; an unknown price is worst."""
    result, work = point.result, tokens_of(point)
    price = bill(prices, result.chip, point.devices, ranking.step_s(point)).step_price
    each = float("inf") if price is None else price / work
    factors = {name: point.place.factor(name) for name in FACTORS}
    more = (1 / size if name == "latency" else size for name, size in factors.items())
    return 1 / ranking.rate(point), float(point.devices), result.peak_bytes, each, *more


def front(points: Sequence[Point], prices: Prices, ranking: Ranking = MEDIAN) -> tuple[Point, ...]:
    """Planned points that no other one beats or equals in everything and beats in something; of
    points with equal results the first.
    """
    first: dict[str, Point] = {}
    for point in planned(points):
        first.setdefault(point.key, point)
    known = list(first.values())
    if not known:
        return ()
    values = np.array([objectives(point, prices, ranking) for point in known])
    return tuple(point for point, keep in zip(known, undominated(values), strict=True) if keep)


def undominated(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Rows that no other row beats; less is better.

    Args:
        values: shape (points, objectives).
    """
    keep = np.ones(len(values), dtype=bool)
    for row, value in enumerate(values):
        better = (values <= value).all(axis=1) & (values < value).any(axis=1)
        keep[row] = not better.any()
    return keep


_FIX = "write it like data/prices.yaml: devices: {CHIP: {hour: {value: 2.5}, power: {value: 700}}}"
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What one device costs and draws."""

    hour: float | None = None
    """Price of an hour, in the currency of the table; `None` if nobody says."""
    power_w: float | None = None
    """Watts under load."""


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices."""

    currency: str
    devices: Mapping[str, Rates]
    """By name of the chip."""

    def of(self, chip: str) -> Rates:
        """What is known of a chip; watts that the table lacks are those of `data/chips`."""
        found = self.devices.get(chip, Rates())
        return found if found.power_w is not None else replace(found, power_w=_power_w(chip))


def bundled_prices() -> Prices:
    """The table of `data/prices.yaml`."""
    return _bundled()


@cache
def _bundled() -> Prices:
    return read_prices(Document("data/prices.yaml", data.read_text("prices.yaml")))


def read_prices(file: Document) -> Prices:
    """A table in the format of `data/prices.yaml`.

    Raises:
        UserError: the text is no such table.
    """
    try:
        record = yaml.safe_load(file.text)
        devices = {str(name): _rates(item) for name, item in record["devices"].items()}
        return Prices(str(record["currency"]), devices)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"{file.name} is no table of prices ({type(error).__name__}: {error})"
        raise UserError(what.splitlines()[0], f"--prices {file.name}", _FIX) from error


def _rates(record: Mapping[str, Any]) -> Rates:
    return Rates(*(_value(record.get(name)) for name in ("hour", "power")))


def _value(record: Mapping[str, Any] | None) -> float | None:
    if record is None:
        return None
    value = float(record["value"])
    if not value >= 0:
        raise ValueError(f"{value} is below 0")
    return value


@cache
def _power_w(chip: str) -> float | None:
    try:
        power = chip_profile(chip).power
    except ClusterError:
        return None
    return None if power is None else parse_watts(power.value)


@dataclass(frozen=True, slots=True)
class Bill:
    """What a step costs, where prices are known."""

    step_price: float | None
    """Device-hours of a step times the price of one."""
    step_joules: float | None
    """Devices times watts under load times seconds: an upper bound, as devices also wait."""


def bill(prices: Prices, chip: str, devices: int, step_s: float) -> Bill:
    """Price and energy of a step."""
    rates = prices.of(chip)
    price = None if rates.hour is None else rates.hour * devices * step_s / SECONDS_PER_HOUR
    joules = None if rates.power_w is None else rates.power_w * devices * step_s
    return Bill(price, joules)
