"""From a pipelined step to a programme: passes in the order of the schedule, and what they send.

One device stands for all that share a stage's work. A pass is one task, however many layers it
runs; where gradients or parameters travel beside it, it falls into a task for each bucket.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.engine import Timeline
from costmodel.simulation.job import Job, Stage
from costmodel.simulation.passes import Folded, Piece, beside, joined, parts_of, pieces, together
from costmodel.simulation.programme import COMPUTE, Chain, Part, Programme, Use, Work, chained
from costmodel.simulation.replicas import Replicas
from costmodel.simulation.routes import Route
from costmodel.simulation.schedules import SCHEDULES, Direction, Order, Pass, Shape, orders

Key: TypeAlias = tuple[Direction, int, int, int]
"""Direction, stage, chunk and micro-batch of a pass."""


class Ends(NamedTuple):
    """First and last task of a pass."""

    first: int
    last: int


class Held(NamedTuple):
    """Bytes that a stage holds from the start of one task to the end of another."""

    stage: int
    since: int
    until: int
    nbytes: float


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """The programme of a job, and what each stage holds in memory."""

    job: Job
    programme: Programme
    held: tuple[Held, ...]
    joined: tuple[int, ...]
    """Tasks at which data parallel replicas wait for one another."""

    def step_s(self, timeline: Timeline) -> float:
        """Seconds from step to step: those of the longest stage, where steps overlap."""
        if not SCHEDULES[self.job.schedule].skewed:
            return timeline.step_s
        first, last = [math.inf] * len(self.job.stages), [0.0] * len(self.job.stages)
        for task, streams in enumerate(self.programme.streams):
            for stage in {self.programme.stream_device[stream] for stream in streams}:
                first[stage] = min(first[stage], float(timeline.start_s[task]))
                last[stage] = max(last[stage], float(timeline.end_s[task]))
        return max(b - a for a, b in zip(first, last, strict=True))


def pipeline_programme(job: Job, effects: Effects) -> PipelineStep:
    """The programme of one step.

    Raises:
        ScheduleError: the schedule does not allow these numbers.
    """
    return _Lowering(job, effects).run()


@dataclass(slots=True)
class _Streams:
    """Of one stage; all the same one if nothing overlaps."""

    compute: int
    forward: int
    backward: int
    ports: dict[str, int]
    """Shared fairly, by tier."""
    engine: int


class _Chunk(NamedTuple):
    """Facts of the layers of one chunk."""

    gathers: bool
    syncs: bool
    kept_bytes: float
    working_bytes: float
    waiting_bytes: float
    owed_bytes: float


@dataclass(slots=True)
class _Lowering:
    job: Job
    effects: Effects
    programme: Programme = field(default_factory=Programme)
    route: Route = field(init=False)
    streams: list[_Streams] = field(init=False)
    passes: dict[Key, Ends] = field(default_factory=dict)
    sends: dict[Key, int] = field(default_factory=dict)
    """What hands the result of a pass over, by the pass."""
    held: list[Held] = field(default_factory=list)
    last_micro: dict[tuple[int, int], int] = field(default_factory=dict)
    ran: list[list[int]] = field(init=False)
    """Computations of each stage in order."""
    replicas: list[Replicas] = field(init=False)
    """What each stage exchanges with its replicas."""
    chunks: dict[tuple[int, int], _Chunk] = field(default_factory=dict)
    folded: dict[tuple[int, int, Direction, bool], Folded] = field(default_factory=dict)
    """What a pass is made of that runs as one task; the same for all micro-batches."""

    def __post_init__(self) -> None:
        self.route = Route.of(self.job)
        self.streams, self.replicas = [], []
        for own in self.job.stages:
            self._add_device(own)
        self.ran = [[] for _ in self.job.stages]
        for stage, own in enumerate(self.job.stages):
            for number, blocks in enumerate(own.chunks):
                self.chunks[stage, number] = _Chunk(
                    any(b.gather_s for b in blocks),
                    any(b.sync_s for b in blocks),
                    sum(b.kept_bytes * b.count for b in blocks),
                    max((b.working_bytes for b in blocks), default=0.0),
                    sum(b.waiting_bytes * b.count for b in blocks),
                    sum(b.owed_bytes * b.count for b in blocks),
                )

    def _add_device(self, stage: Stage) -> None:
        """Streams and ports of a stage. Where transfers queue, all to replicas are one stream."""
        programme, effects, job = self.programme, self.effects, self.job
        device = programme.device(stage.name, stage.copies or job.copies)
        compute = programme.stream(device, COMPUTE)
        forward = backward = gathers = reductions = compute
        if effects.overlap:
            forward = programme.stream(device, "send forward")
            backward = programme.stream(device, "send backward")
            gathers = reductions = programme.stream(device, "replicas")
            if effects.contention is not Contention.QUEUE:
                reductions = programme.stream(device, "reductions")
        tiers = sorted({job.send.tier, job.sharding.tier})
        ports = {tier: programme.resource() for tier in tiers}
        streams = _Streams(compute, forward, backward, ports, programme.resource())
        self.streams.append(streams)
        uses = self._uses(streams, job.sharding.tier)
        ahead, overlap = effects.prefetch, effects.overlap
        self.replicas.append(
            Replicas(programme, job.sharding, gathers, reductions, uses, ahead, overlap)
        )

    def _uses(self, streams: _Streams, tier: str) -> list[Use]:
        """What a transfer takes of what is shared."""
        fair = self.effects.contention is Contention.FAIR
        uses = [Use(streams.ports[tier], 1.0)] if fair else []
        if self.effects.interference:
            uses.append(Use(streams.engine, self.effects.interference))
        return uses

    def run(self) -> PipelineStep:
        job = self.job
        shape = Shape(len(job.stages), job.chunks, job.micro_batches)
        found = orders(job.schedule, shape)
        for stage, order in enumerate(found):
            self._note_last(stage, order)
            if job.overhead_s:
                overhead = chained([Part(Work("overhead"), job.overhead_s)])
                self._compute(stage, "step", overhead, ())
            for passes in together(order) if self.effects.overlap else ([each] for each in order):
                self._run(stage, passes)
        self._connect()
        self._updates()
        joined = tuple(sorted(task for own in self.replicas for task in own.joined))
        return PipelineStep(job, self.programme, tuple(self.held), joined)

    def _note_last(self, stage: int, order: Order) -> None:
        for each in order:
            if each.direction is Direction.WEIGHT or (
                each.direction is Direction.BACKWARD and each.whole
            ):
                self.last_micro[stage, each.chunk] = each.micro

    # One pass, or two interleaved

    def _run(self, stage: int, passes: Sequence[Pass]) -> None:
        travels = [self._gathers(stage, p) or self._syncs(stage, p) for p in passes]
        if len(passes) > 1 and not any(travels):
            ends = [self._pair(stage, passes)] * len(passes)
        else:
            ends = [self._pass(stage, each) for each in passes]
        for each, own in zip(passes, ends, strict=True):
            self.passes[each.direction, stage, each.chunk, each.micro] = own
            self._hold(stage, each)
            if each.direction is not Direction.WEIGHT:
                self._send(stage, each, own.last, beside=any(travels))

    def _pass(self, stage: int, each: Pass) -> Ends:
        gathered, synced = self._gathers(stage, each), self._syncs(stage, each)
        if not gathered and not synced:
            own = self._whole(stage, each)
            label = f"{each.direction}{each.micro}"
            task = self._compute(stage, label, own.chain, (), own.hidden)
            return Ends(task, task)
        blocks = self.job.stages[stage].chunks[each.chunk]
        begin = len(self.programme)
        tasks = [
            self._piece(stage, each, piece, gathered=gathered, synced=synced)
            for piece in pieces(blocks, self.job.sharding.buckets, each)
        ]
        # Where nothing overlaps, a stage gathers when its input is there.
        return Ends(tasks[0] if self.effects.overlap else begin, tasks[-1])

    def _piece(self, stage: int, each: Pass, piece: Piece, *, gathered: bool, synced: bool) -> int:
        """Some layers of a pass, and what travels for them."""
        replicas, ran = self.replicas[stage], self.ran[stage]
        needs = replicas.gather(piece, ran[-1] if ran else -1) if gathered else []
        parts, hidden = parts_of(piece, each)
        parts += replicas.slowed(piece, each, gathers=gathered, syncs=synced)
        label = f"{each.direction}{each.micro} {piece.block.name}".rstrip()
        task = self._compute(stage, label, chained(parts), needs, hidden)
        if gathered:
            replicas.used(piece, task)
        if synced:
            replicas.sync(piece, task)
        return task

    def _whole(self, stage: int, each: Pass) -> Folded:
        """A pass as one task."""
        key = (stage, each.chunk, each.direction, each.whole)
        if key not in self.folded:
            blocks = self.job.stages[stage].chunks[each.chunk]
            parts, hidden = parts_of(Piece(joined(blocks), 1.0), each)
            self.folded[key] = Folded(chained(parts), hidden)
        return self.folded[key]

    def _pair(self, stage: int, passes: Sequence[Pass]) -> Ends:
        """Two passes as one."""
        own = beside([self._whole(stage, each) for each in passes])
        label = "+".join(f"{p.direction}{p.micro}" for p in passes)
        task = self._compute(stage, label, own.chain, (), own.hidden)
        return Ends(task, task)

    def _gathers(self, stage: int, each: Pass) -> bool:
        """Whether parameters are gathered for this pass."""
        sharding = self.job.sharding
        if not self.chunks[stage, each.chunk].gathers:
            return False
        if sharding.gather_each_pass:
            return each.direction is not Direction.WEIGHT
        return each.direction is Direction.FORWARD and each.micro == 0

    def _syncs(self, stage: int, each: Pass) -> bool:
        """Whether gradients are complete with this pass."""
        if not self.chunks[stage, each.chunk].syncs:
            return False
        makes = each.direction is Direction.WEIGHT or (
            each.direction is Direction.BACKWARD and each.whole
        )
        last = self.last_micro[stage, each.chunk] == each.micro
        return makes and (last or self.job.sharding.sync_each_micro)

    def _compute(
        self,
        stage: int,
        label: str,
        chain: Chain,
        needs: Iterable[int],
        hidden: Sequence[Part] = (),
    ) -> int:
        task = self.programme.add_chain(label, chain, (self.streams[stage].compute,), needs)
        if self.effects.interference:
            self.programme.uses[task] = (Use(self.streams[stage].engine, 1.0),)
        if hidden:
            self.programme.hidden[task] = tuple(hidden)
        self.ran[stage].append(task)
        return task

    # Between passes

    def _send(self, stage: int, each: Pass, after: int, *, beside: bool) -> None:
        """Hand the result of a pass over to whoever needs it, if that is another device.

        A message does not queue behind what replicas exchange beside the pass: both go on at half
        speed while it is sent.
        """
        forward = each.direction is Direction.FORWARD
        find = self.route.behind if forward else self.route.before
        target = find(stage, each.chunk)
        if target is None:
            return
        key = (each.direction, stage, each.chunk, each.micro)
        self.sends[key] = after
        if target[0] != stage and self.job.send_s:
            streams = self.streams[stage]
            stream = streams.forward if forward else streams.backward
            label = f"{each.direction}{each.micro} to {self.job.stages[target[0]].name}"
            seconds = self.job.send_s
            if beside and self._queues() and self.replicas[stage].delay(seconds):
                seconds *= 2
            work, uses = self.job.send, self._uses(streams, self.job.send.tier)
            self.sends[key] = self.programme.add(label, work, seconds, (stream,), [after], uses)

    def _queues(self) -> bool:
        """Whether transfers to other stages and to replicas meet at a port."""
        same = self.job.send.tier == self.job.sharding.tier
        return same and self.effects.overlap and self.effects.contention is Contention.QUEUE

    def _connect(self) -> None:
        """Let every pass wait for what it gets from the pass before."""
        for (direction, stage, chunk, micro), ends in self.passes.items():
            if direction is Direction.WEIGHT:
                self.programme.need(
                    ends.first, self.passes[Direction.BACKWARD, stage, chunk, micro].last
                )
                continue
            forward = direction is Direction.FORWARD
            find = self.route.before if forward else self.route.behind
            source = find(stage, chunk)
            if source is not None:
                self.programme.need(ends.first, self.sends[(direction, *source, micro)])
            elif not forward:
                own = self.passes[Direction.FORWARD, stage, chunk, micro]
                self.programme.need(ends.first, own.last)

    def _hold(self, stage: int, each: Pass) -> None:
        """Activations from the forward pass until the last gradient that needs them."""
        if each.direction is Direction.FORWARD:
            return
        made, back, over = (
            self.passes[way, stage, each.chunk, each.micro]
            for way in (Direction.FORWARD, Direction.BACKWARD, each.direction)
        )
        chunk = self.chunks[stage, each.chunk]
        owed_bytes = 0.0 if each.whole else chunk.owed_bytes
        if each.direction is Direction.BACKWARD:
            own = max(chunk.working_bytes - chunk.waiting_bytes - owed_bytes, 0.0)
            self._held(stage, made.first, back.last, chunk.waiting_bytes)
            self._held(stage, back.first, back.last, own)
        else:
            self._held(stage, back.first, over.last, chunk.owed_bytes)
        if each.whole or each.direction is Direction.WEIGHT:
            self._held(stage, made.first, over.last, chunk.kept_bytes)

    def _held(self, stage: int, since: int, until: int, nbytes: float) -> None:
        if nbytes:
            self.held.append(Held(stage, since, until, nbytes))

    def _updates(self) -> None:
        """Update the parameters, after all stages have their gradients or each by itself."""
        pairs = zip(self.ran, self.replicas, strict=True)
        ready = [ran[-1:] + replicas.finish(ran[-1]) for ran, replicas in pairs]
        if not SCHEDULES[self.job.schedule].skewed:
            everyone = sorted({task for own in ready for task in own})
            barrier = self.programme.add("all stages", Work("barrier"), 0.0, (), everyone)
            ready = [[barrier]] * len(ready)
        for stage, (own, needs) in enumerate(zip(self.job.stages, ready, strict=True)):
            if own.update_s:
                part = Part(Work("optimizer update"), own.update_s)
                self._compute(stage, "update", chained([part]), needs)
            self.replicas[stage].gather_late([*needs, self.ran[stage][-1]])
