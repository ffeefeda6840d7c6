"""Everything that follows from a sweep, as one record."""

from __future__ import annotations

from dataclasses import dataclass

from planner.whatif.analysis import Curve, Deadline, best_of, deadline, scaling
from planner.whatif.around import Around
from planner.whatif.axes import Axis
from planner.whatif.changes import Change, changes
from planner.whatif.pareto import front
from planner.whatif.prices import Prices
from planner.whatif.remaining import Aftermath
from planner.whatif.shapes import Shapes
from planner.whatif.sweep import Point


@dataclass(frozen=True, slots=True)
class Report:
    """A sweep and what follows from it."""

    model: str
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]
    prices: Prices
    best: Point | None
    """Gets most done in a second; `None` where nothing fits anywhere."""
    curves: tuple[Curve, ...]
    changes: tuple[Change, ...]
    front: tuple[Point, ...]
    """Plans that no other beats in time, devices, memory and price."""
    searches: int
    """Distinct ones."""
    known: int
    """Of these, done by an earlier run."""
    deadline: Deadline | None = None
    around: Around | None = None
    shapes: Shapes | None = None
    """Plans for a mix of sizes."""
    aftermath: Aftermath | None = None
    """Of the best point when devices fail."""


def report_of(
    model: str,
    axes: tuple[Axis, ...],
    points: tuple[Point, ...],
    prices: Prices,
    searches: tuple[int, int],
    wanted: tuple[float, float] | None = None,
) -> Report:
    """What follows from the points alone.

    Args:
        model: what it is called.
        axes: of the sweep.
        points: all of them.
        prices: of devices.
        searches: distinct ones, and those of an earlier run.
        wanted: tokens, and the days in which they are to be done.
    """
    return Report(
        model, axes, points, prices, best_of(points), scaling(points), changes(points),
        front(points, prices), *searches,
        deadline=None if wanted is None else deadline(points, *wanted),
    )  # fmt: skip
