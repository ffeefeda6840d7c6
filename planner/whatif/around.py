"""The neighbourhood of a point: what its plan responds to, and what it loses if costs are wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.moving_stages import on_machine
from planner.whatif.engines import Engine
from planner.whatif.machines import scaled
from planner.whatif.results import Result
from planner.whatif.store import Store
from planner.whatif.sweep import Count, Watch, kept
from planner.whatif.tasks import Sweep, Task, named
from planner.whatif.workbench import Workbench

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
        kept_s = on_machine(plan, each.machine.cluster).estimate.step_time_s
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


def _in_world(task: Task, factors: Mapping[str, float]) -> Task:
    cluster = scaled(task.machine.cluster, **factors)
    return named(replace(task, machine=replace(task.machine, cluster=cluster)))


def _searched(
    sweep: Sweep, tasks: Iterable[Task], engine: Engine, store: Store, watch: Watch
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
