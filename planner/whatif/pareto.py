"""Points that no other point beats in everything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.whatif.analysis import planned, rate_of, work_of
from planner.whatif.axes import FACTORS
from planner.whatif.prices import Prices, bill
from planner.whatif.sweep import Point

OBJECTIVES = ("seconds", "devices", "memory", "price", *FACTORS)
"""What counts, less is better: seconds of a unit of work, devices, bytes on a device, price of a
unit of work, and what the machine is assumed to have more of than it has, for which no price is
known. A unit of work is a token, or a sample where the model has none."""


def objectives(point: Point, prices: Prices) -> tuple[float, ...]:
    """What a planned point takes, as `OBJECTIVES` names it; an unknown price is worst."""
    result, work = point.result, work_of(point)
    price = bill(prices, result.chip, point.devices, result.best_s).step_price
    each = float("inf") if price is None else price / work
    factors = {name: point.place.factor(name) for name in FACTORS}
    more = (1 / size if name == "latency" else size for name, size in factors.items())
    return 1 / rate_of(point), float(point.devices), result.peak_bytes, each, *more


def front(points: Sequence[Point], prices: Prices) -> tuple[Point, ...]:
    """Planned points that no other one beats or equals in everything and beats in something; of
    points with equal results the first.
    """
    first: dict[str, Point] = {}
    for point in planned(points):
        first.setdefault(point.key, point)
    known = list(first.values())
    if not known:
        return ()
    values = np.array([objectives(point, prices) for point in known])
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
