"""A sweep and what follows from it: as one record, as a table, as one JSON object."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

from ir.json_text import finite
from planner.repricing.other_machine import repriced
from planner.requests.option_texts import ROBUST
from planner.whatif.analysis import (
    Curve,
    Deadline,
    Prices,
    Ranking,
    best_of,
    bill,
    deadline,
    front,
    rate_of,
    scaling,
)
from planner.whatif.axes import Axis, Place
from planner.whatif.changes import Change, changes
from planner.whatif.goodput import Aftermath
from planner.whatif.shapes import Shapes
from planner.whatif.sweep import Count, Point, Store, Watch, kept
from planner.whatif.tasks import PointTask, Result, Sweep, named
from planner.whatif.workbench import Engine, Workbench

AXES = ("cluster", "devices", "batch", "sequence", "bandwidth", "latency", "memory", "compute")
RESULTS = (
    "status", "step_s", "low_s", "high_s", "upper_s", "simulated_s", "bound_s", "gap",
    "samples_per_s", "tokens_per_s", "utilisation", "peak_gib", "limit_gib", "stages",
    "micro_batches", "plan", "price_per_step", "joules_per_step", "currency", "key", "message",
)  # fmt: skip
COLUMNS = (*AXES, *RESULTS)
"""Those of every sweep; open dimensions of a model stand behind the axes."""
GIB = 2.0**30


def columns(points: Sequence[Point]) -> tuple[str, ...]:
    """The columns of a sweep."""
    named = dict.fromkeys(name for point in points for name, _ in point.place.values)
    return (*AXES, *(name for name in named if name not in AXES), *RESULTS)


def row(point: Point, prices: Prices) -> dict[str, object]:
    """One point; `None` where something is not known."""
    result, names = point.result, columns([point])
    cells: dict[str, object] = {name: point.place.get(name) for name in names}
    cells |= {"devices": point.devices or cells["devices"], "status": result.status}
    cells |= {"key": point.key, "message": result.message or None}
    cells["peak_gib"] = finite(result.peak_bytes / GIB)
    cells["limit_gib"] = result.limit_bytes / GIB or None
    if not result.is_planned:
        return {name: cells.get(name) for name in names}
    costs = bill(prices, result.chip, point.devices, result.step_s)
    cells |= {
        "step_s": result.step_s,
        "low_s": result.low_s,
        "high_s": result.high_s,
        "upper_s": result.upper_s,
        "simulated_s": result.simulated_s,
        "bound_s": result.bound_s,
        "gap": finite(result.gap),
        "samples_per_s": result.samples / result.step_s,
        "tokens_per_s": rate_of(point) if result.tokens else None,
        "utilisation": result.utilisation,
        "stages": result.stages,
        "micro_batches": result.micro_batches,
        "plan": result.outline,
        "price_per_step": costs.step_price,
        "joules_per_step": costs.step_joules,
        "currency": None if costs.step_price is None else prices.currency,
    }
    return {name: cells.get(name) for name in names}


def csv_text(points: Sequence[Point], prices: Prices) -> str:
    """A header and one row for each point; cells of what is not known are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns(points), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_cells(row(point, prices)) for point in points)
    return out.getvalue()


def _cells(values: Mapping[str, object]) -> dict[str, object]:
    return {name: _cell(value) for name, value in values.items()}


def _cell(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class Report:
    """A sweep and what follows from it."""

    model: str
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]
    prices: Prices
    best: Point | None
    """Gets most done in a second; `None` where nothing fits anywhere."""
    rank: str
    """Which seconds decide that: one of `RANKS`."""
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

    @property
    def ranking(self) -> Ranking:
        """What decides between its points."""
        return Ranking.of(self.rank, self.points)


def report_of(
    model: str,
    axes: tuple[Axis, ...],
    points: tuple[Point, ...],
    prices: Prices,
    searches: tuple[int, int],
    wanted: tuple[float, float] | None = None,
    rank: str = ROBUST,
) -> Report:
    """What follows from the points alone.

    Args:
        model: what it is called.
        axes: of the sweep.
        points: all of them.
        prices: of devices.
        searches: distinct ones, and those of an earlier run.
        wanted: tokens, and the days in which they are to be done.
        rank: which seconds of a step decide, one of `RANKS`.
    """
    ranking = Ranking.of(rank, points)
    return Report(
        model, axes, points, prices, best_of(points, ranking), rank, scaling(points),
        changes(points), front(points, prices, ranking), *searches,
        deadline=None if wanted is None else deadline(points, *wanted, ranking),
    )  # fmt: skip


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
        "rank": report.rank,
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
        "step_s": [[finite(seconds) for seconds in row] for row in found.step_s],
        "ideal_s": found.ideal_s,
        "best": [
            {
                "plans": list(each.plans),
                "expected_s": finite(each.expected_s),
                "switch_s": each.switch_s,
                "worth_after_steps": finite(each.worth_after(single)),
            }
            for each in found.best
        ],
    }


def _aftermath(found: Aftermath) -> Mapping[str, object]:
    return {
        **asdict(found.goodput),
        "useful": found.goodput.useful,
        "rate": found.rate,
        "useful_rate": found.useful_rate,
        "fallback": None if found.fallback is None else asdict(found.fallback),
    }


PARAMETERS = ("bandwidth", "latency", "compute")
"""Numbers of the machine that decide the time of a plan; memory only decides whether it fits."""


@dataclass(frozen=True, slots=True)
class World:
    """The machine with costs that are wrong by a share."""

    factors: Mapping[str, float]
    """Of the parameters that differ."""
    kept_s: float
    """A step of the plan that was chosen, there."""
    replanned_s: float
    """A step of the plan that is best there."""

    @property
    def regret(self) -> float:
        """What keeping the plan costs, as a share of the best step there."""
        return self.kept_s / self.replanned_s - 1


@dataclass(frozen=True, slots=True)
class Response:
    """What one parameter does to the step."""

    parameter: str
    kept: float
    """Percent that a step of the plan takes longer for one percent more of the parameter."""
    replanned: float
    """The same where the plan is chosen anew."""


@dataclass(frozen=True, slots=True)
class Around:
    """A point and its neighbourhood."""

    key: str
    share: float
    """By which costs may be wrong."""
    step_s: float
    responses: tuple[Response, ...]
    worlds: tuple[World, ...]
    memory_left: float
    """Share of the memory of a device that is free at the peak."""

    @property
    def regret(self) -> float:
        """The largest of all worlds."""
        return max((world.regret for world in self.worlds), default=0.0)


def around(
    sweep: Sweep, key: str, share: float, engine: Engine, store: Store,
    watch: Watch = lambda _: None,
) -> Around:  # fmt: skip
    """The neighbourhood of a point with a plan.

    Every cost is raised and lowered by the share, alone and against the others: those of links
    (bandwidth and latency), and those of computation. In every such world the plan is priced as it
    stands, and the best plan is sought.

    Args:
        sweep: that the point is of.
        key: of the point.
        share: above 0 and below 1.
        engine: who searches.
        store: what is known, and where answers are kept as they come.
        watch: is told how far it is.
    """
    task = next(each for each in sweep.tasks if each.key == key)
    plan = store.plan(key) or Workbench(sweep.graphs, keep_plans=False).plan(task)
    worlds = _worlds(share)
    tasks = {name: _in_world(task, factors) for name, factors in worlds.items()}
    found = _searched(sweep, tasks.values(), engine, store, watch)
    lived = {}
    for name, each in tasks.items():
        kept_s = repriced(plan, each.machine.cluster).estimate.step_time_s
        # What was kept is a plan there too: a search with a gap may have missed it.
        lived[name] = World(worlds[name], kept_s, min(kept_s, found[each.key].step_s))
    responses = tuple(_response(name, lived[name, 1], lived[name, -1]) for name in PARAMETERS)
    estimate = plan.estimate
    left = 1 - estimate.peak_memory_bytes / estimate.memory_limit_bytes
    return Around(key, share, estimate.step_time_s, responses, tuple(lived.values()), left)


def _worlds(share: float) -> dict[tuple[str, int], Mapping[str, float]]:
    """Factors by what is dearer (1) or cheaper (-1)."""
    found: dict[tuple[str, int], Mapping[str, float]] = {}
    for sign in (1, -1):
        cost, other = 1 + sign * share, 1 - sign * share
        single = {"bandwidth": 1 / cost, "latency": cost, "compute": 1 / cost}
        for name in PARAMETERS:
            found[name, sign] = MappingProxyType({name: single[name]})
        against = {"bandwidth": 1 / cost, "latency": cost, "compute": 1 / other}
        found["links against devices", sign] = MappingProxyType(against)
    return found


def _in_world(task: PointTask, factors: Mapping[str, float]) -> PointTask:
    cluster = task.machine.cluster.scaled(**factors)
    return named(replace(task, machine=replace(task.machine, cluster=cluster)))


def _searched(
    sweep: Sweep, tasks: Iterable[PointTask], engine: Engine, store: Store, watch: Watch
) -> dict[str, Result]:
    distinct = {task.key: task for task in tasks}
    results = store.known(distinct)
    left = [task for key, task in distinct.items() if key not in results]
    known = len(results)
    watch(Count(known, known, len(distinct), "searches around the best point"))
    for done in kept(sweep.graphs, left, engine, store):
        results[done.key] = done.result
        watch(Count(len(results), known, len(distinct), "searches around the best point"))
    return results


def _response(name: str, dear: World, cheap: World) -> Response:
    high, low = dear.factors[name], cheap.factors[name]
    span = math.log(high / low)
    return Response(
        name,
        math.log(dear.kept_s / cheap.kept_s) / span,
        math.log(dear.replanned_s / cheap.replanned_s) / span,
    )
