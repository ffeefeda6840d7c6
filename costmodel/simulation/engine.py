"""Runs a task graph event by event: when does each task start and end?"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.simulation.sharing import fair_rates
from costmodel.simulation.task_graph import TaskGraph

FloatArray = NDArray[np.float64]


class DeadlockError(ValueError):
    """Tasks that wait for one another in a circle."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """When the tasks of a graph ran."""

    graph: TaskGraph
    start_s: FloatArray
    """Shape (tasks,)."""
    end_s: FloatArray
    """Shape (tasks,)."""
    order: NDArray[np.intp]
    """Tasks so that each comes after all that it waits for, shape (tasks,)."""

    @property
    def step_s(self) -> float:
        """Seconds from the first start to the last end."""
        return float(self.end_s.max(initial=0.0))


@dataclass(frozen=True, slots=True)
class Waits:
    """What each task waits for: its needs and its predecessors on its streams."""

    before: list[list[int]]
    after: list[list[int]]


def waits_of(graph: TaskGraph) -> Waits:
    """Edges of the precedence graph, both ways."""
    before: list[list[int]] = [list(own) for own in graph.needs]
    last = [-1] * len(graph.stream_names)
    for task, streams in enumerate(graph.streams):
        for stream in streams:
            if last[stream] >= 0:
                before[task].append(last[stream])
            last[stream] = task
    after: list[list[int]] = [[] for _ in before]
    for task, own in enumerate(before):
        for other in own:
            after[other].append(task)
    return Waits(before, after)


def run(graph: TaskGraph, *, contention: bool = True) -> Timeline:
    """Start and end of every task.

    Args:
        graph: what to run.
        contention: tasks that use the same resource at once slow one another down; otherwise each
            has it for itself.

    Raises:
        DeadlockError: the order of the streams contradicts what tasks need.
    """
    shared = contention and any(graph.uses)
    waits = waits_of(graph)
    ends = _Fluid(graph, waits) if shared else _Fixed(graph, waits)
    start, end, order = ends.run()
    if len(order) < len(graph):
        stuck = sorted(set(range(len(graph))) - set(order))
        shown = ", ".join(graph.labels[t] for t in stuck[:4])
        raise DeadlockError(f"{len(stuck)} tasks wait for one another, among them {shown}")
    return Timeline(graph, np.asarray(start), np.asarray(end), np.asarray(order, dtype=np.intp))


class _Fixed:
    """Without sharing the end of a task follows from the ends before it."""

    def __init__(self, graph: TaskGraph, waits: Waits) -> None:
        self.graph, self.waits = graph, waits

    def run(self) -> tuple[list[float], list[float], list[int]]:
        seconds, before, after = self.graph.seconds, self.waits.before, self.waits.after
        missing = [len(own) for own in before]
        start, end = [0.0] * len(seconds), [0.0] * len(seconds)
        order = [task for task, count in enumerate(missing) if not count]
        for task in order:
            begin = start[task]
            finish = end[task] = begin + seconds[task]
            for other in after[task]:
                start[other] = max(start[other], finish)
                missing[other] -= 1
                if not missing[other]:
                    order.append(other)
        return start, end, order


class _Fluid:
    """Tasks flow at rates that change whenever one of their neighbours starts or ends."""

    def __init__(self, graph: TaskGraph, waits: Waits) -> None:
        self.graph, self.waits = graph, waits
        count = len(graph)
        self.start, self.end = [0.0] * count, [0.0] * count
        self.order: list[int] = []
        self.events: list[tuple[float, int, int]] = []
        """End, task, and the version of its rate that the end holds for."""
        self.version = [0] * count
        self.left: dict[int, float] = {}
        """Seconds at full rate that a running task with resources still needs."""
        self.rate: dict[int, float] = {}
        self.since: dict[int, float] = {}
        self.users: list[set[int]] = [set() for _ in graph.capacity]

    def run(self) -> tuple[list[float], list[float], list[int]]:
        missing = [len(own) for own in self.waits.before]
        for task, count in enumerate(missing):
            if not count:
                self._begin(task, 0.0)
        while self.events:
            now, task, version = heapq.heappop(self.events)
            if version != self.version[task]:
                continue
            self.end[task] = now
            self.order.append(task)
            self._release(task, now)
            for other in self.waits.after[task]:
                missing[other] -= 1
                if not missing[other]:
                    self._begin(other, now)
        return self.start, self.end, self.order

    def _begin(self, task: int, now: float) -> None:
        self.start[task] = now
        uses = self.graph.uses[task]
        seconds = self.graph.seconds[task]
        if not uses or not seconds:
            heapq.heappush(self.events, (now + seconds, task, 0))
            return
        self.left[task], self.rate[task], self.since[task] = seconds, 0.0, now
        for use in uses:
            self.users[use.resource].add(task)
        self._share(task, now)

    def _release(self, task: int, now: float) -> None:
        if task not in self.left:
            return
        neighbours = self._neighbours(task)
        for use in self.graph.uses[task]:
            self.users[use.resource].discard(task)
        del self.left[task], self.rate[task], self.since[task]
        neighbours.discard(task)
        self._set_rates(neighbours, now)

    def _share(self, task: int, now: float) -> None:
        self._set_rates(self._neighbours(task), now)

    def _neighbours(self, task: int) -> set[int]:
        """Running tasks that are joined to one by shared resources."""
        found, open_tasks = {task}, [task]
        while open_tasks:
            for use in self.graph.uses[open_tasks.pop()]:
                new = self.users[use.resource] - found
                found |= new
                open_tasks += new
        return found

    def _set_rates(self, tasks: set[int], now: float) -> None:
        """Advance some tasks to now and give them the rates that hold from now on."""
        ordered = sorted(tasks)
        rates = fair_rates({t: self.graph.uses[t] for t in ordered}, self.graph.capacity)
        for task in ordered:
            old = self.rate[task]
            if rates[task] == old:
                continue
            self.left[task] = max(self.left[task] - (now - self.since[task]) * old, 0.0)
            self.rate[task], self.since[task] = rates[task], now
            self.version[task] += 1
            finish = now + self.left[task] / rates[task]
            heapq.heappush(self.events, (finish, task, self.version[task]))
