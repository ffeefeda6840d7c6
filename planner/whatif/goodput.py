"""Useful work of a job whose devices fail.

A job of n devices stops n times as often as one device fails. It writes a checkpoint every so many
seconds, and after a failure begins again from the last one. Source of all formulas: J. T. Daly, "A
higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
Computer Systems 22, 2006, equations 20 and 37; J. W. Young, "A first order approximation to the
optimum checkpoint interval", Communications of the ACM 17(9), 1974.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ir.plan import Plan
from planner.repricing.migration_cost import migration
from planner.request import InfeasibleError, RequestError
from planner.requests.errors import UserError
from planner.whatif.analysis import rate_of
from planner.whatif.sweep import Count, Point, Store, Watch
from planner.whatif.tasks import Asked, PointTask, outline_of, task_at
from planner.whatif.workbench import Workbench, result_of

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Failures:
    """How devices fail, and what is done then."""

    device_mtbf_s: float
    """Mean time between failures of one device and its share of the rest, in seconds."""
    restart_s: float = 600.0
    """From a failure to the first step after it, with devices at hand."""
    checkpoint_bytes_per_s: float = 1e9
    """At which each device writes its part."""
    repair_s: float = 24 * SECONDS_PER_HOUR
    """Until a server that failed is back."""
    spares: int = 0
    """Servers that stand by."""

    def __post_init__(self) -> None:
        numbers = (self.device_mtbf_s, self.checkpoint_bytes_per_s, self.repair_s)
        if not all(n > 0 and math.isfinite(n) for n in numbers) or self.restart_s < 0:
            raise UserError(
                "a time between failures, a rate or a time of repair that is not above 0",
                "--mtbf", "give hours such as --mtbf 50000",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Goodput:
    """What is left of the work of a job."""

    mtbf_s: float
    """Of the job."""
    checkpoint_s: float
    """To write one."""
    interval_s: float
    """Best time of work between two checkpoints (Daly)."""
    young_s: float
    """The same to first order (Young)."""
    running: float
    """Useful share of the time in which the job has all its devices."""
    available: float
    """Share of the time in which it has them: spares stand in for servers under repair."""

    @property
    def useful(self) -> float:
        """Useful share of all time."""
        return self.running * self.available


def young_interval_s(checkpoint_s: float, mtbf_s: float) -> float:
    """Best time between checkpoints, to first order.

    >>> young_interval_s(60, 86400 / 4)
    1609.9689437998486
    """
    return math.sqrt(2 * checkpoint_s * mtbf_s)


def daly_interval_s(checkpoint_s: float, mtbf_s: float) -> float:
    """Best time of work between checkpoints, to higher order; where one takes longer than twice the
    time between failures, that time.
    """
    if checkpoint_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = checkpoint_s / (2 * mtbf_s)
    series = 1 + math.sqrt(ratio) / 3 + ratio / 9
    return max(math.sqrt(2 * checkpoint_s * mtbf_s) * series - checkpoint_s, checkpoint_s * 1e-6)


def useful_share(interval_s: float, checkpoint_s: float, restart_s: float, mtbf_s: float) -> float:
    """Work over time with failures that are exponentially distributed.

    Args:
        interval_s: of work between two checkpoints.
        checkpoint_s: to write one.
        restart_s: after each failure.
        mtbf_s: of the job.
    """
    exponent = (interval_s + checkpoint_s) / mtbf_s
    if exponent + restart_s / mtbf_s > 700:
        return 0.0
    spent = mtbf_s * math.exp(restart_s / mtbf_s) * math.expm1(exponent)
    return min(1.0, interval_s / spent) if spent > 0 else 1.0


def availability(servers: int, server_mtbf_s: float, repair_s: float, spares: int) -> float:
    """Share of the time in which no more servers are under repair than stand by.

    Servers fail and come back independently of one another; each is away for
    repair / (mtbf + repair) of the time, and their number is binomial.
    """
    away = repair_s / (server_mtbf_s + repair_s)
    total = servers + spares
    logs = [
        math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1)
        + k * math.log(away) + (total - k) * math.log1p(-away)
        for k in range(spares + 1)
    ]  # fmt: skip
    return min(1.0, math.fsum(map(math.exp, logs)))


def goodput(failures: Failures, devices: int, server_devices: int, state_bytes: float) -> Goodput:
    """What is left of the work of a job.

    Args:
        failures: how devices fail.
        devices: of the job.
        server_devices: devices that are lost together.
        state_bytes: that each device writes into a checkpoint.
    """
    mtbf_s = failures.device_mtbf_s / devices
    checkpoint_s = state_bytes / failures.checkpoint_bytes_per_s
    interval_s = daly_interval_s(checkpoint_s, mtbf_s)
    server_mtbf_s = failures.device_mtbf_s / server_devices
    servers = max(1, devices // server_devices)
    return Goodput(
        mtbf_s,
        checkpoint_s,
        interval_s,
        young_interval_s(checkpoint_s, mtbf_s),
        useful_share(interval_s, checkpoint_s, failures.restart_s, mtbf_s),
        availability(servers, server_mtbf_s, failures.repair_s, failures.spares),
    )


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
        change = migration(old, new, range(server))
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


def _plan(bench: Workbench, task: PointTask) -> Plan | None:
    try:
        return bench.plan(task)
    except (InfeasibleError, RequestError):
        return None
