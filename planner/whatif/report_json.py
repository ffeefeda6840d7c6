"""A sweep as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from planner.whatif.analysis import Deadline
from planner.whatif.around import Around
from planner.whatif.axes import Place
from planner.whatif.remaining import Aftermath
from planner.whatif.report import Report
from planner.whatif.shapes import Shapes
from planner.whatif.sweep import Point
from planner.whatif.table import row


def answer(report: Report, files: Sequence[object] = ()) -> dict[str, object]:
    """A sweep with what follows from it; points of the lists are named by their number."""
    number = {id(point): index for index, point in enumerate(report.points)}

    def of(point: Point | None) -> int | None:
        return None if point is None else number[id(point)]

    return {
        "status": "ok" if report.best is not None else "infeasible",
        "model": report.model,
        "axes": {axis.name: list(axis.values) for axis in report.axes},
        "searches": report.searches,
        "known": report.known,
        "points": [row(point, report.prices) for point in report.points],
        "best": of(report.best),
        "scaling": [
            {"at": _place(curve.place), "points": [asdict(p) for p in curve.points]}
            for curve in report.curves
        ],
        "changes": [asdict(c) | {"place": _place(c.place)} for c in report.changes],
        "pareto": [of(point) for point in report.front],
        **({} if report.deadline is None else {"deadline": _deadline(report.deadline, of)}),
        **({} if report.around is None else {"around": _around(report.around)}),
        **({} if report.shapes is None else {"mix": _mix(report.shapes)}),
        **({} if report.aftermath is None else {"failures": _aftermath(report.aftermath)}),
        "files": [str(path) for path in files],
    }


def _place(place: Place) -> dict[str, object]:
    return dict(place.values)


def _deadline(found: Deadline, of: Callable[[Point | None], int | None]) -> dict[str, object]:
    return {
        "tokens": found.tokens,
        "days": found.days,
        "point": of(found.point),
        "takes_days": found.takes_days,
        "needed_devices": found.needed_devices,
    }


def _around(found: Around) -> dict[str, object]:
    return {
        "share": found.share,
        "step_s": found.step_s,
        "memory_left": found.memory_left,
        "regret": found.regret,
        "responses": [asdict(each) for each in found.responses],
        "worlds": [
            {
                "factors": dict(world.factors),
                "kept_s": world.kept_s,
                "replanned_s": world.replanned_s,
                "regret": world.regret,
            }
            for world in found.worlds
        ],
    }


def _mix(found: Shapes) -> dict[str, object]:
    """Plans by the number of the size that each was found for; `null` where one does not serve."""
    single = found.best[0]
    return {
        "sizes": [_place(place) for place in found.sizes],
        "weights": list(found.weights),
        "plans": list(found.outlines),
        "step_s": [[_finite(seconds) for seconds in row] for row in found.step_s],
        "ideal_s": found.ideal_s,
        "best": [
            {
                "plans": list(each.plans),
                "expected_s": _finite(each.expected_s),
                "switch_s": each.switch_s,
                "worth_after_steps": _finite(each.worth_after(single)),
            }
            for each in found.best
        ],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _aftermath(found: Aftermath) -> Mapping[str, object]:
    return {
        **asdict(found.goodput),
        "useful": found.goodput.useful,
        "rate": found.rate,
        "useful_rate": found.useful_rate,
        "fallback": None if found.fallback is None else asdict(found.fallback),
    }
