"""What follows from a sweep: scaling, and what finishes in time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from planner.whatif.axes import Place
from planner.whatif.sweep import Point

SECONDS_PER_DAY = 86_400.0


def work_of(point: Point) -> float:
    """What a step gets done: tokens, or samples where the model has none."""
    return point.result.tokens or point.result.samples


def rate_of(point: Point) -> float:
    """Work per second; 0 where nothing is planned."""
    if not point.result.is_planned or point.result.best_s <= 0:
        return 0.0
    return work_of(point) / point.result.best_s


def planned(points: Iterable[Point]) -> list[Point]:
    """Points with a plan."""
    return [point for point in points if point.result.is_planned]


def best_of(points: Iterable[Point]) -> Point | None:
    """The point that gets most done in a second; of equal ones the one on fewest devices."""
    found = planned(points)
    return min(found, key=lambda p: (-rate_of(p), p.devices), default=None)


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


def deadline(points: Sequence[Point], tokens: float, days: float) -> Deadline:
    """The fewest devices that finish so many tokens in so many days.

    Models without tokens count samples.
    """
    needed = tokens / (days * SECONDS_PER_DAY)
    able = [point for point in planned(points) if rate_of(point) >= needed]
    chosen = min(able, key=lambda p: (p.devices, -rate_of(p)), default=None)
    fastest = best_of(points)
    shown = chosen or fastest
    takes = math.inf if shown is None else tokens / rate_of(shown) / SECONDS_PER_DAY
    more = None
    if chosen is None and fastest is not None:
        more = math.ceil(fastest.devices * needed / rate_of(fastest))
    return Deadline(tokens, days, chosen, takes, fastest, more)
