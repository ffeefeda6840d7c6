"""From a plan with stages to a programme: passes of micro-batches in the order of the schedule.

One device stands for all of a stage. A pass runs as one task, made of what its operators and
collectives take when they run by themselves, event by event. The last backward pass of a stage runs
operator by operator: beside it travel the gradients that are complete with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from costmodel.collectives import Collective
from costmodel.simulation.accounting import account_of
from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.engine import run
from costmodel.simulation.passes import Folded
from costmodel.simulation.plan_index import CAUSE_INSIDE, CAUSE_SYNC
from costmodel.simulation.plan_programme import Lowering, Tasks
from costmodel.simulation.programme import Part, Programme, Use, Work, chained
from costmodel.simulation.result import SimulationError
from costmodel.simulation.schedules import Direction, Pass, Shape, orders
from ir.plan import Plan
from ir.plan_stages import leaving, once_in_step, pipeline_of, received, send_times, stage_plan

SCHEDULES = ("1f1b", "gpipe", "interleaved")
"""Those that run forward and whole backward passes."""
MAX_PASSES = 2_000_000
_ROUNDING = 1e-9


class StagePass(NamedTuple):
    """One pass of a micro-batch through a stage."""

    stage: int
    direction: Direction
    micro: int
    first: int
    """Its first task."""
    last: int
    """The task with which its computation ends."""


@dataclass(frozen=True, slots=True)
class StagedStep:
    """The programme of a plan with stages."""

    programme: Programme
    passes: tuple[StagePass, ...]
    joins: dict[int, tuple[int, ...]]
    """Axes of a stage's mesh over which its devices wait for one another, by task."""


def staged_programme(plan: Plan, effects: Effects) -> StagedStep:
    """The programme of one step.

    Raises:
        SimulationError: a schedule that is not known here, or too many passes.
    """
    pipeline = pipeline_of(plan)
    passes = 2 * len(pipeline.stages) * pipeline.micro_batches
    if pipeline.schedule not in SCHEDULES:
        raise SimulationError(
            f"the schedule {pipeline.schedule!r} of a plan is not simulated\n"
            f"  at:  pipeline.schedule\n  fix: plan with one of {', '.join(SCHEDULES)}"
        )
    if passes > MAX_PASSES:
        raise SimulationError(
            f"{passes:,} passes of micro-batches; at most {MAX_PASSES:,} are simulated\n"
            "  at:  pipeline.micro_batches\n  fix: plan with larger micro-batches"
        )
    return _Staged(plan, effects).run()


class _Folds(NamedTuple):
    """What one stage does, each pass as one task."""

    forward: Folded
    backward: Folded
    joins: tuple[int, ...]
    """Axes over which the devices wait for one another in a pass."""


class _Cut(NamedTuple):
    """What crosses the cut before a stage, and what leaves it behind."""

    forward_s: float
    """To receive a micro-batch."""
    backward_s: float
    """To send its gradient back."""
    work: Work
    comes: tuple[str, ...]
    """Tensors whose gradients go back."""
    goes: tuple[str, ...]
    """Tensors that leave for the next stage."""


def _cut(plan: Plan, stage: int) -> _Cut:
    items = received(plan, stage)
    cause, tier = (items[0].cause, items[0].tier) if items else ("between stages", "")
    return _Cut(
        *send_times(plan, stage),
        Work(cause, Collective.POINT_TO_POINT.value, tier),
        tuple(s.tensor for s in items if s.backward),
        tuple(s.tensor for s in leaving(plan, stage)),
    )


@dataclass(slots=True)
class _Streams:
    forward: int
    """On which a stage hands micro-batches on."""
    backward: int
    """On which it sends gradients back."""


@dataclass(slots=True)
class _Staged:
    plan: Plan
    effects: Effects
    programme: Programme = field(default_factory=Programme)
    parts: list[Lowering] = field(default_factory=list)
    """Each part of the machine; with chunks it runs several stages."""
    streams: list[_Streams] = field(default_factory=list)
    cuts: list[_Cut] = field(init=False)
    own: list[Plan] = field(init=False)
    folds: list[_Folds] = field(init=False)
    passes: dict[tuple[int, Direction, int], StagePass] = field(default_factory=dict)
    arrivals: dict[tuple[int, int], int] = field(default_factory=dict)
    """Task of a backward pass that waits for its gradient, by stage and micro-batch."""
    handed: dict[tuple[int, int], int] = field(default_factory=dict)
    """What hands a micro-batch on to a stage, by the stage and the micro-batch."""
    gradients: dict[tuple[int, int], int] = field(default_factory=dict)
    """What hands a gradient back, by the stage that sends it and the micro-batch."""
    joins: dict[int, tuple[int, ...]] = field(default_factory=dict)
    complete: dict[int, Tasks] = field(default_factory=dict)
    """What the gradients of the parameters of each stage wait for."""

    def __post_init__(self) -> None:
        stages = range(len(pipeline_of(self.plan).stages))
        self.own = [stage_plan(self.plan, stage) for stage in stages]
        self.cuts = [_cut(self.plan, stage) for stage in stages]
        self.folds = [self._folds(stage) for stage in stages]

    @property
    def micro_batches(self) -> int:
        return pipeline_of(self.plan).micro_batches

    def run(self) -> StagedStep:
        pipeline = pipeline_of(self.plan)
        shape = Shape(pipeline.parts, pipeline.chunks, pipeline.micro_batches)
        for part in range(pipeline.parts):
            own = Lowering(self.own[part], self.effects, self.programme, f"stage {part}")
            self.parts.append(own)
            self.streams.append(self._streams(own))
        for part, order in enumerate(orders(pipeline.schedule, shape)):
            self._part(part, order)
        self._connect()
        self._updates()
        for lowering in self.parts:
            self.joins.update(lowering.joins)
        return StagedStep(self.programme, tuple(self.passes.values()), self.joins)

    def _part(self, part: int, order: Sequence[Pass]) -> None:
        count = pipeline_of(self.plan).parts
        for each in order:
            stage = each.chunk * count + part
            if each.direction is Direction.FORWARD:
                self._forward(stage, each.micro)
            elif each.micro < self.micro_batches - 1 or not self.effects.overlap:
                self._backward(stage, each.micro)
            else:
                self._last_backward(stage)
        if not self.effects.overlap:
            for stage in range(part, len(self.own), count):
                self._sync_alone(stage)

    def _on(self, stage: int) -> Lowering:
        """The part of the machine that runs a stage."""
        return self.parts[stage % pipeline_of(self.plan).parts]

    def _sending(self, stage: int) -> _Streams:
        return self.streams[stage % pipeline_of(self.plan).parts]

    def _streams(self, lowering: Lowering) -> _Streams:
        if not self.effects.overlap:
            return _Streams(lowering.compute, lowering.compute)
        names = ("send forward", "send backward")
        return _Streams(*(self.programme.stream(lowering.device, name) for name in names))

    # A pass by itself

    def _folds(self, stage: int) -> _Folds:
        every = self.own[stage]
        comes, goes = self.cuts[stage].comes, self.cuts[stage].goes
        there = Lowering(_pass_of(every, backward=False), self.effects)
        there.forward_pass(goes)
        back = Lowering(_pass_of(every, backward=True), self.effects)
        back.backward_pass(goes, comes)
        axes = {a for own in (there, back) for joined in own.joins.values() for a in joined}
        return _Folds(folded(there.programme), folded(back.programme), tuple(sorted(axes)))

    def _fold(self, stage: int, label: str, fold: Folded, needs: Iterable[int]) -> int:
        lowering = self._on(stage)
        task = self.programme.add_chain(label, fold.chain, (lowering.compute,), needs)
        if self.effects.interference:
            self.programme.uses[task] = (Use(lowering.engine, 1.0),)
        if fold.hidden:
            self.programme.hidden[task] = fold.hidden
        lowering.last_compute = task
        return task

    # The passes of a stage

    def _forward(self, stage: int, micro: int) -> None:
        needs: list[int] = []
        folds = self.folds[stage]
        if stage:
            sender = stage - 1 if self.effects.overlap else stage
            stream, seconds = self._sending(sender).forward, self.cuts[stage].forward_s
            sent = self._send(stage, f"F{micro} to stage {stage}", seconds, stream, ())
            self.handed[stage, micro], needs = sent, [sent]
        task = self._fold(stage, f"F{micro}", folds.forward, needs)
        self._note(stage, Direction.FORWARD, micro, task, task, folds.joins)

    def _backward(self, stage: int, micro: int) -> None:
        folds = self.folds[stage]
        task = self._fold(stage, f"B{micro}", folds.backward, ())
        self.arrivals[stage, micro] = task
        self._note(stage, Direction.BACKWARD, micro, task, task, folds.joins)
        self._send_back(stage, micro, [task])

    def _last_backward(self, stage: int) -> None:
        """Operator by operator; gradients that are complete travel beside it."""
        lowering, micro = self._on(stage), self.micro_batches - 1
        marker = self.programme.add("", Work("barrier"), 0.0, (), [lowering.last_compute])
        self.arrivals[stage, micro] = marker
        lowering.take(self._last_pass(stage))
        comes = self.cuts[stage].comes
        lowering.backward_pass(self.cuts[stage].goes, comes, frozenset([marker]))
        handed = frozenset().union(*(lowering.gradient[name] for name in comes))
        last = lowering.last_compute
        self._note(stage, Direction.BACKWARD, micro, marker, last, None)
        self._send_back(stage, micro, handed or [last])
        self.complete[stage] = lowering.gradients_ready() | {last}

    def _last_pass(self, stage: int) -> Plan:
        """The backward pass of the last micro-batch, with the gradients that are complete then."""
        own = self.own[stage]
        once = (i for i in once_in_step(self.plan, stage) if i.cause == CAUSE_SYNC)
        return _pass_of(replace(own, collectives=(*own.collectives, *once)), backward=True)

    def _sync_alone(self, stage: int) -> None:
        """Without overlap gradients are reduced when all passes are over."""
        folds = self.folds[stage]
        back = Lowering(self._last_pass(stage), self.effects)
        back.backward_pass(self.cuts[stage].goes, self.cuts[stage].comes)
        seconds = sum(back.programme.seconds) - folds.backward.chain.seconds
        items = [i for i in once_in_step(self.plan, stage) if i.cause == CAUSE_SYNC]
        total = sum(i.time_s for i in items)
        parts = [
            Part(Work(i.cause, i.kind, i.tier), max(seconds, 0.0) * i.time_s / total)
            for i in items
            if total
        ]
        last = self._on(stage).last_compute
        if parts:
            last = self._fold(stage, "gradients", Folded(chained(parts), ()), ())
        self.complete[stage] = frozenset([last])

    def _note(
        self, stage: int, direction: Direction, micro: int, first: int, last: int,
        joins: tuple[int, ...] | None,
    ) -> None:  # fmt: skip
        self.passes[stage, direction, micro] = StagePass(stage, direction, micro, first, last)
        if joins:
            self.joins[first] = joins

    # Between stages

    def _send_back(self, stage: int, micro: int, needs: Iterable[int]) -> None:
        if stage:
            label, stream = f"B{micro} to stage {stage - 1}", self._sending(stage).backward
            seconds = self.cuts[stage].backward_s
            self.gradients[stage, micro] = self._send(stage, label, seconds, stream, needs)

    def _send(
        self, stage: int, label: str, seconds: float, stream: int, needs: Iterable[int]
    ) -> int:
        """What goes over the cut before a stage; it does not queue at ports."""
        work = self.cuts[stage].work
        lowering = self.parts[self.programme.stream_device[stream]]
        uses: list[Use] = []
        if self.effects.contention is Contention.FAIR:
            pairs = zip(lowering.ports.cluster.tiers, lowering.ports.resources, strict=True)
            uses = [Use(port, 1.0) for tier, port in pairs if tier.name == work.tier]
        if self.effects.interference:
            uses.append(Use(lowering.engine, self.effects.interference))
        return self.programme.add(label, work, seconds, (stream,), needs, uses)

    def _connect(self) -> None:
        """Let every pass wait for what it gets from the stage beside."""
        for (stage, micro), task in self.handed.items():
            self.programme.need(task, self.passes[stage - 1, Direction.FORWARD, micro].last)
        for (stage, micro), task in self.arrivals.items():
            if stage + 1 < len(self.own):
                self.programme.need(task, self.gradients[stage + 1, micro])

    def _updates(self) -> None:
        """Update the parameters once all stages have their gradients, as the norm of all wants."""
        self._add_shared()
        needs = sorted(frozenset().union(*self.complete.values()))
        barrier = self.programme.add("all stages", Work("barrier"), 0.0, (), needs)
        for stage, own in enumerate(self.own):
            lowering = self._on(stage)
            lowering.take(replace(own, collectives=once_in_step(self.plan, stage)))
            lowering.updates(frozenset([barrier]))

    def _add_shared(self) -> None:
        """Stages that hold the same parameter add up their gradients of it."""
        for shared in pipeline_of(self.plan).shared:
            needs = frozenset().union(*(self.complete[stage] for stage in shared.stages))
            work = Work(CAUSE_SYNC, Collective.POINT_TO_POINT.value, shared.tier)
            for stage in shared.stages:
                stream = self._sending(stage).backward
                task = self.programme.add(shared.tensor, work, shared.time_s, (stream,), needs)
                self.complete[stage] |= {task}


def folded(programme: Programme) -> Folded:
    """A programme of one device as one task: what it is seen to spend, and what it hides."""
    account = account_of(run(programme))
    parts = [Part(Work(cause), seconds) for cause, seconds in account.computing.items()]
    hidden: list[Part] = []
    for item in account.communication:
        work = Work(item.cause, item.kind, item.tier)
        parts.append(Part(work, item.exposed_s))
        if item.hidden_s > 0:
            hidden.append(Part(work, item.hidden_s))
    if account.waiting_s > account.step_s * _ROUNDING:
        parts.append(Part(Work("waiting"), account.waiting_s))
    return Folded(chained([p for p in parts if p.seconds > 0]), tuple(hidden))


def _pass_of(plan: Plan, *, backward: bool) -> Plan:
    """The plan with the communication of one pass; what runs inside operators knows its pass."""
    kept = tuple(
        i
        for i in plan.collectives
        if i.cause == CAUSE_INSIDE or backward == (i.backward > 0 or i.cause == CAUSE_SYNC)
    )
    return replace(plan, collectives=kept)
