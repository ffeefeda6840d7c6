"""Training with parameter servers: workers push gradients to servers and pull parameters.

Each server holds an equal part of the parameters, so that every push and pull goes to all servers
at once; they are one resource with the ports of all. Workers that push or pull at the same time
share it max-min fairly.

Source: Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from costmodel.simulation.engine import Timeline, run
from costmodel.simulation.task_graph import COMPUTE, Activity, TaskGraph, Use


class ServerError(ValueError):
    """Workers, servers or a change of them that cannot be."""


@dataclass(frozen=True, slots=True)
class ServedTraining:
    """Workers, servers and what they exchange."""

    compute_s: tuple[float, ...]
    """Forward and backward pass of one batch, of every worker."""
    servers: int
    nbytes: float
    """Gradients that a worker pushes, and parameters that it pulls, each time."""
    worker_bytes_per_s: float
    """Of the port of one worker, each way."""
    server_bytes_per_s: float
    """Of the port of one server, each way."""
    latency_s: float = 0.0
    update_s: float = 0.0
    """For all servers together to apply the gradients of one worker."""
    synchronous: bool = True
    """All workers wait for one another; else each goes on with what it pulls."""
    steps: int = 10
    """Batches of each worker that are simulated."""

    def __post_init__(self) -> None:
        rates = (self.worker_bytes_per_s, self.server_bytes_per_s)
        times = (*self.compute_s, self.nbytes, self.latency_s, self.update_s)
        if not self.compute_s or self.servers < 1 or self.steps < 1:
            raise ServerError("workers, servers and steps are 1 or more")
        if not all(0 < rate < math.inf for rate in rates):
            raise ServerError("bandwidths are above 0")
        if not all(0 <= value < math.inf for value in times):
            raise ServerError("times and bytes are 0 or more")


@dataclass(frozen=True, slots=True)
class Workers:
    """Devices that compute the same step side by side, each for samples of its own."""

    name: str
    """Of the model."""
    count: int
    compute_s: float
    """Forward and backward pass of the batch of one of them, nothing exchanged or updated."""
    nbytes: float
    """Of the gradients that one pushes, and of the parameters that it pulls."""
    port_bytes_per_s: float
    """Of one of them, each way."""
    port_latency_s: float
    samples: float
    """Of the batch of one."""
    tokens: float


@dataclass(frozen=True, slots=True)
class Servers:
    """What serves the workers."""

    count: int
    synchronous: bool = True
    bytes_per_s: float = 0.0
    """Of the port of one server; 0 says as that of a worker."""
    update_s: float = 0.0
    """For one server alone to apply all gradients of one worker; several share them."""
    slow_workers: int = 0
    slow_factor: float = 1.0
    """How much longer those take to compute."""
    steps: int = 10


def served_training(workers: Workers, servers: Servers) -> ServedTraining:
    """Workers and what they exchange with servers."""
    slow, compute_s = min(servers.slow_workers, workers.count), workers.compute_s
    slow_s = compute_s * servers.slow_factor
    return ServedTraining(
        compute_s=(compute_s,) * (workers.count - slow) + (slow_s,) * slow,
        servers=servers.count,
        nbytes=workers.nbytes,
        worker_bytes_per_s=workers.port_bytes_per_s,
        server_bytes_per_s=servers.bytes_per_s or workers.port_bytes_per_s,
        latency_s=workers.port_latency_s,
        update_s=servers.update_s / servers.count,
        synchronous=servers.synchronous,
        steps=servers.steps,
    )


@dataclass(frozen=True, slots=True)
class ServedRate:
    """What served training reaches."""

    batches_per_s: float
    """Of all workers together."""
    step_s: float
    """From one batch of a mean worker to the next."""
    communication_s: float
    """Of a mean worker in a step: pushing, waiting for the update, pulling."""
    staleness: float
    """Updates of others that were applied between a pull and the update that it led to, mean."""


class Member(StrEnum):
    """What is lost or added."""

    WORKER = "worker"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class Change:
    """A worker or a server that is lost or added."""

    member: Member
    count: int
    """Below 0 for lost, above 0 for added ones."""
    at_s: float
    downtime_s: float = 0.0
    """In which those that depend on it stand still: all for a server; all for a worker too if they
    are synchronous, and only itself if they are not."""


@dataclass(frozen=True, slots=True)
class ChangedRun:
    """A run in which members are lost or added."""

    batches: float
    """Done within the time."""
    without_change: float
    before: ServedRate
    after: ServedRate


def served_rate(training: ServedTraining) -> ServedRate:
    """Simulate some steps."""
    graph, marks = _task_graph(training)
    timeline = run(graph)
    ends = [float(timeline.end_s[own[-1].pull]) for own in marks]
    rates = [training.steps / end if end > 0 else 0.0 for end in ends]
    mean_s = sum(ends) / len(ends) / training.steps
    computing = sum(training.compute_s) / len(training.compute_s)
    return ServedRate(sum(rates), mean_s, mean_s - computing, _staleness(timeline, marks))


def changed_run(training: ServedTraining, change: Change, horizon_s: float) -> ChangedRun:
    """Batches done in a time in which members are lost or added.

    A lost worker's batch under way is lost; what synchronous workers had under way is lost with it,
    and with any server.

    Raises:
        ServerError: nobody is left, or the change comes after the end.
    """
    if not 0 <= change.at_s <= horizon_s < math.inf or change.downtime_s < 0:
        raise ServerError("a change comes between the start and the end, and takes 0 s or more")
    before, after = served_rate(training), served_rate(_changed(training, change))
    common = training.synchronous or change.member is Member.SERVER
    wasted_s = before.step_s / 2 if change.count < 0 else 0.0
    at_s = change.at_s
    if common:
        worked_s = max(at_s - wasted_s, 0.0)
        resumed_s = max(horizon_s - at_s - change.downtime_s, 0.0)
        batches = worked_s * before.batches_per_s + resumed_s * after.batches_per_s
    else:
        share = -min(change.count, 0) / len(training.compute_s)
        batches = max(at_s - wasted_s * share, 0.0) * before.batches_per_s
        kept = min(before.batches_per_s, after.batches_per_s)
        slow_s = min(change.downtime_s, horizon_s - at_s)
        batches += slow_s * kept + (horizon_s - at_s - slow_s) * after.batches_per_s
    return ChangedRun(batches, horizon_s * before.batches_per_s, before, after)


def _changed(training: ServedTraining, change: Change) -> ServedTraining:
    if change.member is Member.SERVER:
        return replace(training, servers=training.servers + change.count)
    if change.count < 0:
        return replace(training, compute_s=training.compute_s[: change.count])
    mean = sum(training.compute_s) / len(training.compute_s)
    return replace(training, compute_s=training.compute_s + (mean,) * change.count)


@dataclass(frozen=True, slots=True)
class _Marks:
    """Tasks of one batch of one worker."""

    begin: int
    """What its parameters came with; -1 at the start."""
    update: int
    pull: int


def _task_graph(training: ServedTraining) -> tuple[TaskGraph, list[list[_Marks]]]:
    """The steps of all workers as a task graph, and the tasks of every batch."""
    graph = TaskGraph()
    lowering = _Lowering(training, graph)
    marks: list[list[_Marks]] = [[] for _ in training.compute_s]
    for _ in range(training.steps):
        pushed = [lowering.push(w, own) for w, own in enumerate(marks)]
        everyone = lowering.update(pushed) if training.synchronous else -1
        for worker, own in enumerate(marks):
            begin = own[-1].pull if own else -1
            update = everyone if everyone >= 0 else lowering.update([pushed[worker]])
            own.append(_Marks(begin, update, lowering.pull(worker, update)))
    return graph, marks


class _Lowering:
    def __init__(self, training: ServedTraining, graph: TaskGraph) -> None:
        self.training, self.graph = training, graph
        self.compute, self.network = [], []
        for number in range(len(training.compute_s)):
            device = graph.device(f"worker {number}")
            self.compute.append(graph.stream(device, COMPUTE))
            self.network.append(graph.stream(device, "network"))
        self.inward, self.outward, self.engine = (graph.resource() for _ in range(3))
        capacity = training.servers * training.server_bytes_per_s
        self.share = training.worker_bytes_per_s / capacity
        self.transfer_s = training.latency_s + training.nbytes / training.worker_bytes_per_s

    def push(self, worker: int, done: list[_Marks]) -> int:
        """Compute a batch and push its gradients."""
        needs = [done[-1].pull] if done else []
        computed = self.graph.add(
            "batch",
            Activity(COMPUTE),
            self.training.compute_s[worker],
            (self.compute[worker],),
            needs,
        )
        return self._move(worker, "push", computed, self.inward)

    def pull(self, worker: int, after: int) -> int:
        return self._move(worker, "pull", after, self.outward)

    def _move(self, worker: int, name: str, after: int, port: int) -> int:
        uses = (Use(port, self.share),)
        stream = (self.network[worker],)
        return self.graph.add(name, Activity(name, name), self.transfer_s, stream, [after], uses)

    def update(self, pushed: list[int]) -> int:
        """Apply the gradients of some workers; updates at once share the servers."""
        seconds = self.training.update_s * len(pushed)
        uses = (Use(self.engine, 1.0),)
        return self.graph.add("update", Activity("update"), seconds, (), pushed, uses)


def _staleness(timeline: Timeline, marks: list[list[_Marks]]) -> float:
    """Mean number of others' updates between a batch's parameters and its own update."""
    updates = sorted({batch.update for own in marks for batch in own})
    every = np.sort(timeline.end_s[updates])
    counts = []
    for own in marks:
        for batch in own:
            pulled = float(timeline.start_s[batch.begin]) if batch.begin >= 0 else 0.0
            applied = float(timeline.end_s[batch.update])
            first = int(np.searchsorted(every, pulled, side="right"))
            # Of the updates that end at the same time half come first, on average.
            before, until = (
                int(np.searchsorted(every, applied, side)) for side in ("left", "right")
            )
            counts.append(max((before + until - 1) / 2 - first, 0.0))
    return float(np.mean(counts))
