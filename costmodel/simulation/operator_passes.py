"""The passes of a stage whose operators a plan tells.

A pass runs as one task, made of what its operators and messages take when they run by themselves,
event by event. The last backward pass runs operator by operator: beside it travel the gradients
that are complete with it. A plan without stages runs operator by operator throughout.

What is sent once in a step holds up kernels by the share of it that shows. All stages do so at the
same time, before their first pass and behind their last one, and not in turn in the passes that
other stages wait for.
Source: Megatron-LM, `--align-param-gather` and `--align-grad-reduce`, its defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from costmodel.plan_overlap import has_overlap
from costmodel.schedules.orders import Direction, Order, Pass
from costmodel.simulation.accounting import account_of
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import Timeline, run
from costmodel.simulation.memory import Change, always, held
from costmodel.simulation.operator_tasks import OperatorTasks
from costmodel.simulation.stage_tasks import Device, Ends, Key, Tasks
from costmodel.simulation.step import ChunkOperators, Stage, Step
from costmodel.simulation.task_graph import Activity, Fused, Span, TaskGraph, fuse
from ir.plan import Plan, PlannedCollective
from ir.plan_enums import Cause
from topology.cluster import Cluster

_ROUNDING = 1e-9


class _FusedPass(NamedTuple):
    """A pass as one task."""

    fused: Fused
    joins: tuple[int, ...]
    """Axes over which the devices wait for one another in it."""


class OperatorPasses:
    """Adds the passes of one stage of a plan."""

    def __init__(self, graph: TaskGraph, effects: Effects, step: Step, stage: Stage) -> None:
        self.step, self.stage, self.overlap = step, stage, effects.overlap
        self.device = _device(stage, graph, effects)
        self.tasks = OperatorTasks(stage.operators[0].micro, self.device)
        self.fused: list[dict[Direction, _FusedPass]] = []
        self.pass_joins: dict[int, tuple[int, ...]] = {}
        self.complete: list[Tasks] = [frozenset()] * len(stage.operators)
        """What the gradients of the parameters of each chunk wait for."""
        if not step.is_single:
            self.device.add_senders()
            self.fused = [
                {way: self._fused(own, way) for way in (Direction.FORWARD, Direction.BACKWARD)}
                for own in stage.operators
            ]

    @property
    def joins(self) -> dict[int, tuple[int, ...]]:
        return self.pass_joins | self.tasks.joins

    def begin(self, order: Order) -> None:  # noqa: ARG002
        """Before all passes comes what shows of gathers of parameters that the step before has
        updated.
        """
        if self.overlap and not self.step.is_single:
            self._showing("updated parameters", Cause.UPDATED_PARAMETERS)

    def _showing(self, label: str, cause: Cause) -> None:
        """The share that shows of messages of all chunks that run once in a step."""
        spans = []
        for chunk, own in enumerate(self.stage.operators):
            for item in self._once(chunk, cause):
                share = self.tasks.shown_share(item, own.micro.graph.tensors[item.tensor])
                activity = Activity(item.cause, item.kind, item.tier)
                spans.append(Span(activity, share * item.time_s))
        if any(span.seconds for span in spans):
            self.device.run(label, fuse(spans))

    def run(self, passes: Sequence[Pass]) -> list[Ends]:
        run = self._operators if self.step.is_single else self._pass
        return [run(each) for each in passes]

    def _operators(self, each: Pass) -> Ends:
        """A pass of the only micro-batch through the only stage, operator by operator."""
        if each.direction is Direction.FORWARD:
            self.tasks.forward_pass()
        elif self.tasks.index.derived:
            self.tasks.backward_pass()
        return Ends(-1, self.device.last, ())

    def _pass(self, each: Pass) -> Ends:
        backward, last = each.direction is Direction.BACKWARD, self.step.micro_batches - 1
        if backward and each.micro == last and self.overlap:
            return self._last_backward(each)
        if not backward and each.micro == 0 and self.overlap and self._updated(each.chunk):
            return self._first_forward(each)
        found = self.fused[each.chunk][each.direction]
        task = self.device.run(f"{each.direction}{each.micro}", found.fused)
        if found.joins:
            self.pass_joins[task] = found.joins
        return Ends(task, task, (task,))

    def _updated(self, chunk: int) -> tuple[PlannedCollective, ...]:
        """What brings parts of parameters together that the step before has updated."""
        return self._once(chunk, Cause.UPDATED_PARAMETERS)

    def _once(self, chunk: int, cause: Cause) -> tuple[PlannedCollective, ...]:
        return tuple(i for i in self.stage.operators[chunk].once if i.cause == cause)

    def _first_forward(self, each: Pass) -> Ends:
        """Operator by operator; parameters that the step before has updated travel beside it."""
        own, device = self.stage.operators[each.chunk], self.device
        needs = [device.last] if device.last >= 0 else []
        marker = device.graph.add("", Activity("barrier"), 0.0, (), needs)
        plan = _pass_of(own.micro, backward=False)
        updated = self._updated(each.chunk)
        self.tasks.take(replace(plan, collectives=(*plan.collectives, *updated)), updated)
        self.tasks.forward_pass(own.leaving, frozenset([marker]))
        last = device.last if device.last >= 0 else marker
        left = frozenset[int]().union(*(self.tasks.ready.get(n, frozenset()) for n in own.leaving))
        return Ends(marker, last, sorted(left) or [last])

    def _last_backward(self, each: Pass) -> Ends:
        """Operator by operator; gradients that are complete travel beside it."""
        own, device = self.stage.operators[each.chunk], self.device
        marker = device.graph.add("", Activity("barrier"), 0.0, (), [device.last])
        self.tasks.take(_last_pass(own), self._once(each.chunk, Cause.GRADIENT_SYNC))
        self.tasks.backward_pass(own.leaving, own.received, frozenset([marker]))
        handed = frozenset[int]().union(*(self.tasks.gradient[name] for name in own.received))
        last = device.last
        self.complete[each.chunk] = self.tasks.gradients_ready() | {last}
        return Ends(marker, last, sorted(handed) or [last])

    def end(self) -> None:
        """Behind all passes comes what shows of the gradients; all of them without overlap."""
        if self.step.is_single:
            return
        if self.overlap:
            self._showing("gradients", Cause.GRADIENT_SYNC)
            self.complete = [needs | {self.device.last} for needs in self.complete]
            return
        for chunk, own in enumerate(self.stage.operators):
            items = self._once(chunk, Cause.GRADIENT_SYNC)
            total = sum(i.time_s for i in items)
            alone = self._alone(_last_pass(own))
            alone.backward_pass(own.leaving, own.received)
            passed = self.fused[chunk][Direction.BACKWARD].fused.seconds
            seconds = max(sum(alone.device.graph.seconds) - passed, 0.0)
            spans = [
                Span(Activity(i.cause, i.kind, i.tier), seconds * i.time_s / total)
                for i in items
                if total
            ]
            last = self.device.run("gradients", fuse(spans)) if spans else self.device.last
            self.complete[chunk] = frozenset([last])

    def sending_s(self, seconds: float, passes: Sequence[Pass]) -> float:  # noqa: ARG002
        """Messages to other stages meet no others."""
        return seconds

    def gradients(self) -> list[Tasks]:
        return [self.tasks.gradients_ready()] if self.step.is_single else self.complete

    def update(self, chunk: int, needs: Tasks) -> None:
        if not self.step.is_single:
            own = self.stage.operators[chunk]
            self.tasks.take(replace(own.micro, collectives=own.once))
        self.tasks.updates(needs)

    # A pass by itself

    def _alone(self, plan: Plan) -> OperatorTasks:
        """Operators on a device without anything else."""
        return OperatorTasks(plan, _device(self.stage, TaskGraph(), self.device.effects))

    def _fused(self, own: ChunkOperators, way: Direction) -> _FusedPass:
        alone = self._alone(_pass_of(own.micro, backward=way is Direction.BACKWARD))
        if way is Direction.FORWARD:
            alone.forward_pass(own.leaving)
        else:
            alone.backward_pass(own.leaving, own.received)
        axes = {axis for joined in alone.joins.values() for axis in joined}
        return _FusedPass(fuse_tasks(alone.device.graph), tuple(sorted(axes)))

    # Memory

    def memory(self, passes: Mapping[Key, Ends], timeline: Timeline) -> Iterator[Change]:
        if self.step.is_single:
            yield from self._memory_of_operators(timeline)
            return
        yield always(self.stage.state_bytes)
        for chunk, own in enumerate(self.stage.operators):
            points, half = own.micro.memory_bytes, len(own.micro.memory_bytes) // 2
            full = self.stage.state_bytes + own.beside_bytes + own.kept_bytes
            tops = {
                Direction.FORWARD: max(points[:half]) - full,
                Direction.BACKWARD: max(points[half:]) - full,
            }
            for (way, number, micro), ends in passes.items():
                if number == chunk:
                    yield held(timeline, ends.first, ends.last, tops[way])
                    if way is Direction.BACKWARD:
                        begun = passes[Direction.FORWARD, chunk, micro].first
                        yield held(timeline, begun, ends.last, own.kept_bytes)

    def _memory_of_operators(self, timeline: Timeline) -> Iterator[Change]:
        """What the plan says of each operator, and buckets that are gathered ahead.

        A plan with overlap has the layer ahead among what it holds.
        """
        plan = self.stage.operators[0].micro
        yield operator_levels(timeline, self.tasks.points, plan.memory_bytes)
        if has_overlap(plan) and self.device.effects.prefetch <= 1:
            return
        for gather, before, nbytes in self.tasks.gathers.ahead:
            since = float(timeline.start_s[gather])
            until = float(timeline.end_s[before]) if before >= 0 else 0.0
            if until > since:
                yield np.array([since, until]), np.array([nbytes, -nbytes])


def operator_levels(timeline: Timeline, tasks: Sequence[int], points: Sequence[float]) -> Change:
    """Memory at the points of a plan.

    Args:
        timeline: when the tasks ran.
        tasks: the task during which each point is reached; -1 where nothing runs.
        points: bytes in use.
    """
    times, levels = [0.0], [points[0] if points else 0.0]
    for task, nbytes in zip(tasks, points, strict=True):
        times.append(float(timeline.start_s[task]) if task >= 0 else 0.0)
        levels.append(nbytes)
    # Operators that take no time share a moment: what counts is the most that it holds.
    at, moment = np.unique(times, return_inverse=True)
    most = np.zeros(len(at))
    np.maximum.at(most, moment, levels)
    return at, np.diff(most, prepend=0.0)


def fuse_tasks(graph: TaskGraph) -> Fused:
    """The tasks of one device as one: what it is seen to spend, and what it hides."""
    account = account_of(run(graph))
    spans = [Span(Activity(cause), seconds) for cause, seconds in account.computing.items()]
    hidden: list[Span] = []
    for item in account.communication:
        activity = Activity(item.cause, item.kind, item.tier)
        spans.append(Span(activity, item.exposed_s))
        if item.hidden_s > 0:
            hidden.append(Span(activity, item.hidden_s))
    if account.waiting_s > account.step_s * _ROUNDING:
        spans.append(Span(Activity("waiting"), account.waiting_s))
    return fuse([span for span in spans if span.seconds > 0], hidden)


def _device(stage: Stage, graph: TaskGraph, effects: Effects) -> Device:
    cluster = Cluster.from_dict(stage.operators[0].micro.cluster)
    return Device(graph, effects, stage.name, stage.copies, [tier.name for tier in cluster.tiers])


def _last_pass(own: ChunkOperators) -> Plan:
    """The backward pass of the last micro-batch, with the gradients that are complete then."""
    once = (i for i in own.once if i.cause == Cause.GRADIENT_SYNC)
    plan = replace(own.micro, collectives=(*own.micro.collectives, *once))
    return _pass_of(plan, backward=True)


def _pass_of(plan: Plan, *, backward: bool) -> Plan:
    """The plan with the communication of one pass; what runs inside operators knows its pass."""
    kept = tuple(
        i
        for i in plan.collectives
        if i.cause == Cause.INSIDE or backward == (i.backward > 0 or i.cause == Cause.GRADIENT_SYNC)
    )
    return replace(plan, collectives=kept)
