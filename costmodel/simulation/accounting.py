"""Where the time of a simulated step went: computation, communication seen and hidden, waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.simulation.engine import Timeline
from costmodel.simulation.task_graph import Activity, TaskGraph
from topology.units import without_rounding

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Communication:
    """Seconds of one kind of communication on an average device."""

    kind: str
    tier: str
    cause: str
    total_s: float
    """As it ran, slowed by whatever shared its links."""
    exposed_s: float
    """While the device computed nothing; what runs at once shares it evenly."""

    @property
    def hidden_s(self) -> float:
        """Behind computation."""
        return self.total_s - self.exposed_s


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """How one device spent the step; computing, exposed and waiting are all of it."""

    name: str
    copies: int
    computing_s: float
    exposed_s: float
    waiting_s: float
    """Neither computing nor communicating."""


@dataclass(frozen=True, slots=True)
class Account:
    """The step, averaged over the devices."""

    step_s: float
    computing: Mapping[str, float]
    """Seconds by cause."""
    communication: tuple[Communication, ...]
    """Largest exposed first."""
    waiting_s: float
    devices: tuple[DeviceTime, ...]

    @property
    def exposed_s(self) -> float:
        return sum(c.exposed_s for c in self.communication)

    @property
    def hidden_s(self) -> float:
        return sum(c.hidden_s for c in self.communication)


@dataclass(frozen=True, eq=False)
class _DeviceTasks:
    """Tasks of one device, computation and communication apart."""

    compute: NDArray[np.intp]
    communication: NDArray[np.intp]


def account_of(timeline: Timeline, step_s: float | None = None) -> Account:
    """What a timeline spent on what.

    Args:
        timeline: when the tasks ran.
        step_s: seconds of a step, if another one begins before this one is over.
    """
    graph = timeline.graph
    step_s = timeline.step_s if step_s is None else step_s
    weights = np.array(graph.copies, dtype=np.float64)
    weights /= weights.sum()
    computing: dict[str, float] = {}
    moved: dict[Activity, list[float]] = {}
    devices: list[DeviceTime] = []
    for device, tasks in enumerate(_by_device(graph)):
        weight = float(weights[device])
        exposed = _exposed(timeline, tasks)
        inner = _count_parts(timeline, tasks.compute, weight, computing, moved)
        for task, seen in zip(tasks.communication.tolist(), exposed.tolist(), strict=True):
            total = float(timeline.end_s[task] - timeline.start_s[task])
            _tally(moved, graph.activities[task], total * weight, seen * weight)
        busy = float((timeline.end_s - timeline.start_s)[tasks.compute].sum())
        seen_s = float(exposed.sum())
        devices.append(
            DeviceTime(
                graph.device_names[device],
                graph.copies[device],
                busy - inner,
                seen_s + inner,
                max(without_rounding(step_s - busy - seen_s, step_s), 0.0),
            )
        )
    rows = (
        Communication(
            w.kind, w.tier, w.cause, total, total - without_rounding(total - seen, step_s)
        )
        for w, (total, seen) in moved.items()
    )
    ordered = sorted(rows, key=lambda c: (-c.exposed_s, -c.total_s, c.kind, c.tier, c.cause))
    waiting = sum(d.waiting_s * float(w) for d, w in zip(devices, weights, strict=True))
    return Account(step_s, computing, tuple(ordered), waiting, tuple(devices))


def _by_device(graph: TaskGraph) -> list[_DeviceTasks]:
    """Tasks of every device; a task on a device's first stream counts as computation there."""
    count = len(graph.copies)
    first: dict[int, int] = {}
    for stream, device in enumerate(graph.stream_device):
        first.setdefault(device, stream)
    compute: list[list[int]] = [[] for _ in range(count)]
    other: list[list[int]] = [[] for _ in range(count)]
    for task, streams in enumerate(graph.streams):
        for device in {graph.stream_device[s] for s in streams}:
            (compute if first[device] in streams else other)[device].append(task)
    return [
        _DeviceTasks(np.array(a, dtype=np.intp), np.array(b, dtype=np.intp))
        for a, b in zip(compute, other, strict=True)
    ]


def _exposed(timeline: Timeline, tasks: _DeviceTasks) -> FloatArray:
    """Seconds of each communication while nothing is computed, shape (tasks.communication,)."""
    start, end = timeline.start_s, timeline.end_s
    if not len(tasks.communication):
        return np.zeros(0)
    groups = (tasks.compute, tasks.communication)
    times = np.unique(np.concatenate([x[t] for t in groups for x in (start, end)]))
    busy, running = (_running(start[t], end[t], times) for t in groups)
    share = np.where(busy == 0, np.diff(times) / np.maximum(running, 1), 0.0)
    before = np.concatenate([[0.0], np.cumsum(share)])
    first, last = (np.searchsorted(times, x[tasks.communication]) for x in (start, end))
    return np.asarray(before[last] - before[first])


def _running(start: FloatArray, end: FloatArray, times: FloatArray) -> NDArray[np.int64]:
    """How many tasks run between each two times, shape (times - 1,)."""
    delta = np.zeros(len(times), dtype=np.int64)
    np.add.at(delta, np.searchsorted(times, start), 1)
    np.add.at(delta, np.searchsorted(times, end), -1)
    return np.cumsum(delta)[:-1]


def _count_parts(
    timeline: Timeline,
    tasks: NDArray[np.intp],
    weight: float,
    computing: dict[str, float],
    moved: dict[Activity, list[float]],
) -> float:
    """Count what runs on the first stream; seconds of communication among it."""
    graph, inner = timeline.graph, 0.0
    for task in tasks.tolist():
        for work, seconds in graph.hidden.get(task, ()):
            _tally(moved, work, seconds * weight, 0.0)
        alone = graph.seconds[task]
        stretched = float(timeline.end_s[task] - timeline.start_s[task]) / alone if alone else 0.0
        for work, part_s in graph.spans_of(task):
            seconds = part_s * stretched
            if work.is_communication:
                inner += seconds
                _tally(moved, work, seconds * weight, seconds * weight)
            else:
                computing[work.cause] = computing.get(work.cause, 0.0) + seconds * weight
    return inner


def _tally(moved: dict[Activity, list[float]], work: Activity, total: float, seen: float) -> None:
    sums = moved.setdefault(work, [0.0, 0.0])
    sums[0] += total
    sums[1] += seen
