"""What is left of a job when devices fail, and how it goes on without a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ir.plan import Plan
from planner.changeover import changeover
from planner.request import InfeasibleError, RequestError
from planner.whatif.analysis import rate_of
from planner.whatif.goodput import Failures, Goodput, goodput
from planner.whatif.outline import outline_of
from planner.whatif.store import Store
from planner.whatif.sweep import Count, Point, Watch
from planner.whatif.tasks import Asked, Task, task_at
from planner.whatif.workbench import Workbench, result_of


@dataclass(frozen=True, slots=True)
class Fallback:
    """The plan for the machine that remains when a server is lost."""

    devices: int
    rate: float
    """Work per second."""
    outline: str
    moved_bytes: float
    """Between devices that are left."""
    lost_bytes: float
    """That no device has any more: read from the last checkpoint."""
    move_s: float
    """Seconds of the messages; reading a checkpoint is not in it."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """A point whose devices fail."""

    failures: Failures
    goodput: Goodput
    rate: float
    """Work per second while nothing fails."""
    fallback: Fallback | None
    """`None` where nothing fits on what remains, or there is one server alone."""

    @property
    def useful_rate(self) -> float:
        """Expected work per second: with all devices while spares stand in, else with the rest."""
        less = 0.0 if self.fallback is None else self.fallback.rate
        parts = self.goodput.available * self.rate + (1 - self.goodput.available) * less
        return self.goodput.running * parts


def goodput_of(point: Point, failures: Failures) -> Goodput:
    """What is left of the work of a planned point."""
    result = point.result
    return goodput(failures, point.devices, result.server_devices, result.state_bytes)


def aftermath(
    asked: Asked, point: Point, failures: Failures, store: Store, watch: Watch = lambda _: None
) -> Aftermath:
    """What failures leave of a planned point, and the plan for the machine without a server.

    Args:
        asked: what was swept.
        point: of the sweep.
        failures: how devices fail.
        store: may have the plan of the point.
        watch: is told how far it is.
    """
    fallback = _fallback(asked, point, store, watch)
    return Aftermath(failures, goodput_of(point, failures), rate_of(point), fallback)


def _fallback(asked: Asked, point: Point, store: Store, watch: Watch) -> Fallback | None:
    """The fastest plan on what remains: on all of it, or on a power of two of its servers."""
    found = task_at(asked, point.place)
    server = point.result.server_devices
    left = point.devices // server - 1
    if found is None or left < 1:
        return None
    bench = Workbench(found[1], keep_plans=False)
    old = store.plan(found[0].key) or bench.plan(found[0])
    counts = sorted({left, 1 << (left.bit_length() - 1)})
    options: list[tuple[float, Plan]] = []
    for number, count in enumerate(counts):
        watch(Count(number, 0, len(counts), "searches without a server"))
        options += _plans(asked, point, bench, count)
    watch(Count(len(counts), 0, len(counts), "searches without a server"))
    if not options:
        return None
    rate, new = max(options, key=lambda pair: pair[0])
    try:
        change = changeover(old, new, range(server))
    except RequestError:
        return None
    traffic = change.traffic
    return Fallback(
        new.devices, rate, outline_of(new), traffic.moved_bytes, traffic.lost_bytes,
        change.time_s,
    )  # fmt: skip


def _plans(
    asked: Asked, point: Point, bench: Workbench, servers: int
) -> Iterator[tuple[float, Plan]]:
    """The plan on so many servers with its work per second, if there is one."""
    place = point.place.at("devices", servers * point.result.server_devices)
    found = task_at(asked, place)
    plan = None if found is None else _plan(bench, found[0])
    if plan is not None:
        yield rate_of(Point(place, "", plan.devices, result_of(plan))), plan


def _plan(bench: Workbench, task: Task) -> Plan | None:
    try:
        return bench.plan(task)
    except (InfeasibleError, RequestError):
        return None
