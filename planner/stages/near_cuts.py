"""Cuts that leave most operators on the part of the machine where an older plan had them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planner.stages.chain import FloatArray
from planner.stages.sequence import Ends

STEPS = 12
"""Prices on operators that move, between one that counts for nothing and one that decides."""

Found = tuple[float, Ends] | None
Cut = Callable[[Sequence[FloatArray]], Found]


def cut_near(
    cut: Cut, tables: Sequence[FloatArray], moved: Sequence[FloatArray], most: int | None
) -> Found:
    """The best cuts that move so few operators, as far as a price on them finds these.

    Args:
        cut: finds the best cuts of pieces with such times.
        tables: for each piece the seconds of every interval.
        moved: for each piece the operators of every interval that move.
        most: that may move; None for any number.
    """
    found = cut(tables)
    if most is None or found is None or is_near(moved, found[1], most):
        return found
    low, high = 0.0, _decisive(tables)
    best: Found = None
    for step in range(STEPS):
        price_s = high if step == 0 else (low + high) / 2
        found = cut([own + price_s * count for own, count in zip(tables, moved, strict=True)])
        if found is None:
            return None
        if is_near(moved, found[1], most):
            best, high = found, price_s
        elif step == 0:
            return None
        else:
            low = price_s
    return best


def is_near(moved: Sequence[FloatArray], ends: Ends, most: int | None) -> bool:
    """Whether cuts move no more operators than may move."""
    return most is None or _count(moved, ends) <= most


def _count(tables: Sequence[FloatArray], ends: Ends) -> float:
    pieces = zip(tables, (0, *ends[:-1]), ends, strict=True)
    return sum(float(table[start, end]) for table, start, end in pieces)


def _decisive(tables: Sequence[FloatArray]) -> float:
    """A price on one operator that no time outweighs."""
    return sum(float(table[np.isfinite(table)].max(initial=0.0)) for table in tables)
