"""The passes of a stage whose layers are known by their sizes.

A pass is one task, however many layers it runs; where gradients or parameters travel beside it, it
falls into a task for each bucket.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from costmodel.schedules.orders import Direction, Order, Pass
from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.engine import Timeline
from costmodel.simulation.memory import Change, always, held
from costmodel.simulation.replicas import Piece, Replicas
from costmodel.simulation.stage_tasks import Device, Ends, Key, Tasks
from costmodel.simulation.step import Block, Stage, Step
from costmodel.simulation.task_graph import Activity, Fused, Span, TaskGraph, fuse
from ir.plan_enums import Cause


class LayerPasses:
    """Adds the passes of one stage, and what it exchanges with its replicas beside them."""

    def __init__(self, graph: TaskGraph, effects: Effects, step: Step, stage: Stage) -> None:
        self.step, self.stage, self.overlap = step, stage, effects.overlap
        tiers = sorted({step.send_tier, step.sharding.tier})
        self.device = Device(graph, effects, stage.name, stage.copies, tiers)
        self.device.add_senders()
        self.replicas = Replicas(self.device, step.sharding)
        self.complete: dict[int, int] = {}
        """The micro-batch with which the gradients of each chunk are complete."""
        self.fused: dict[tuple[int, Direction, bool], Fused] = {}
        """Passes that run as one task; the same for all micro-batches."""
        self.gathered, self.synced = (
            [any(getattr(block, name) for block in chunk) for chunk in stage.chunks]
            for name in ("gather_s", "sync_s")
        )
        """By chunk, whether it has parameters that are gathered, and gradients that are reduced."""
        queue = effects.overlap and effects.contention is Contention.QUEUE
        self.queues = queue and step.send_tier == step.sharding.tier
        """Whether transfers to other stages and to replicas meet at a port."""

    @property
    def joins(self) -> dict[int, tuple[int, ...]]:
        return dict.fromkeys(self.replicas.joined, (0,))

    def begin(self, order: Order) -> None:
        for each in order:
            if _makes_gradients(each):
                self.complete[each.chunk] = each.micro
        if self.step.overhead_s:
            self.device.run("step", fuse([Span(Activity("overhead"), self.step.overhead_s)]))

    def end(self) -> None:
        """Reductions that are left wait for the end of all stages."""

    def run(self, passes: Sequence[Pass]) -> list[Ends]:
        if len(passes) == 1 or any(self._exchanges(each) for each in passes):
            return [self._pass(each) for each in passes]
        label = "+".join(f"{each.direction}{each.micro}" for each in passes)
        return [self._task(label, interleaved([self._fused(p) for p in passes]))] * len(passes)

    def _pass(self, each: Pass) -> Ends:
        if not self._exchanges(each):
            return self._task(f"{each.direction}{each.micro}", self._fused(each))
        begin, travels = len(self.device.graph), (self._gathers(each), self._syncs(each))
        tasks = [
            self._piece(each, piece, travels)
            for piece in pieces(self.stage.chunks[each.chunk], self.step.sharding.buckets, each)
        ]
        # Where nothing overlaps, a stage gathers when its input is there.
        return Ends(tasks[0] if self.overlap else begin, tasks[-1], tasks[-1:])

    def _task(self, label: str, fused: Fused) -> Ends:
        task = self.device.run(label, fused)
        return Ends(task, task, (task,))

    def _piece(self, each: Pass, piece: Piece, travels: tuple[bool, bool]) -> int:
        """Some layers of a pass, and what travels for them."""
        replicas, gathered, synced = self.replicas, *travels
        needs = replicas.gather(piece, self.device.last) if gathered else []
        spans, hidden = spans_of(piece, each)
        spans += replicas.slowed(piece, each, gathers=gathered, syncs=synced)
        label = f"{each.direction}{each.micro} {piece.block.name}".rstrip()
        task = self.device.run(label, fuse(spans, hidden), needs)
        if gathered:
            replicas.used(piece, task)
        if synced:
            replicas.sync(piece, task)
        return task

    def _fused(self, each: Pass) -> Fused:
        """A pass as one task."""
        key = (each.chunk, each.direction, each.whole)
        if key not in self.fused:
            whole = Piece(joined(self.stage.chunks[each.chunk]), 1.0)
            self.fused[key] = fuse(*spans_of(whole, each))
        return self.fused[key]

    def _exchanges(self, each: Pass) -> bool:
        return self._gathers(each) or self._syncs(each)

    def _gathers(self, each: Pass) -> bool:
        """Whether parameters are gathered for this pass."""
        if not self.gathered[each.chunk]:
            return False
        if self.step.sharding.gather_each_pass:
            return each.direction is not Direction.WEIGHT
        return each.direction is Direction.FORWARD and each.micro == 0

    def _syncs(self, each: Pass) -> bool:
        """Whether gradients are complete with this pass."""
        if not self.synced[each.chunk]:
            return False
        last = self.complete.get(each.chunk) == each.micro
        return _makes_gradients(each) and (last or self.step.sharding.sync_each_micro)

    def sending_s(self, seconds: float, passes: Sequence[Pass]) -> float:
        """A message does not queue behind what replicas exchange beside the pass: both go on at
        half speed while it is sent.
        """
        meets = self.queues and any(self._exchanges(each) for each in passes)
        return 2 * seconds if meets and self.replicas.delay(seconds) else seconds

    def gradients(self) -> list[Tasks]:
        last = self.device.last
        return [frozenset([last, *self.replicas.finish(last)])] * len(self.stage.chunks)

    def update(self, chunk: int, needs: Tasks) -> None:
        """All chunks in one."""
        if chunk:
            return
        if self.stage.update_s:
            update = fuse([Span(Activity(Cause.UPDATE), self.stage.update_s)])
            self.device.run("update", update, needs)
        self.replicas.gather_late([*needs, self.device.last])

    def memory(self, passes: Mapping[Key, Ends], timeline: Timeline) -> Iterator[Change]:
        """Activations from the forward pass until the last gradient that needs them."""
        yield always(self.stage.state_bytes)
        split = {(c, m) for way, c, m in passes if way is Direction.WEIGHT}
        for (way, number, micro), over in passes.items():
            if way is Direction.FORWARD:
                continue
            made, back = (passes[each, number, micro] for each in (_F, _B))
            whole, blocks = (number, micro) not in split, self.stage.chunks[number]
            waiting, owed, kept = (
                sum(getattr(b, name) * b.count for b in blocks)
                for name in ("waiting_bytes", "owed_bytes", "kept_bytes")
            )
            if way is Direction.BACKWARD:
                working = max((b.working_bytes for b in blocks), default=0.0)
                own = max(working - waiting - (0.0 if whole else owed), 0.0)
                spells = [(made.first, back.last, waiting), (back.first, back.last, own)]
            else:
                spells = [(back.first, over.last, owed)]
            if whole or way is Direction.WEIGHT:
                spells.append((made.first, over.last, kept))
            yield from (held(timeline, *spell) for spell in spells if spell[2])


_F, _B = Direction.FORWARD, Direction.BACKWARD


def _makes_gradients(each: Pass) -> bool:
    """Whether a pass makes gradients of weights."""
    return each.direction is Direction.WEIGHT or (
        each.direction is Direction.BACKWARD and each.whole
    )


def together(order: Order) -> Iterator[list[Pass]]:
    """The passes of an order, those that run interleaved in one list."""
    for _, group in itertools.groupby(
        enumerate(order), key=lambda e: (e[1].pair, e[1].pair < 0 and e[0])
    ):
        yield [each for _, each in group]


def joined(blocks: Sequence[Block]) -> Block:
    """All layers of a chunk as one."""

    def total(name: str) -> tuple[Span, ...]:
        sums: dict[Activity, float] = {}
        for block in blocks:
            for activity, seconds in getattr(block, name):
                sums[activity] = sums.get(activity, 0.0) + seconds * block.count
        return tuple(Span(*pair) for pair in sums.items())

    return Block(
        "",
        1.0,
        forward=total("forward"),
        backward=total("backward"),
        weight=total("weight"),
        again=total("again"),
        hidden_forward=total("hidden_forward"),
        hidden_backward=total("hidden_backward"),
    )


def pieces(blocks: Sequence[Block], bucket: float, each: Pass) -> list[Piece]:
    """The layers of a pass by buckets of so many, in the order in which it runs them."""
    out: list[Piece] = []
    for block in blocks:
        count = max(math.ceil(block.count / bucket - 1e-9), 1)
        out += [Piece(block, min(bucket, block.count - i * bucket)) for i in range(count)]
    return out if each.direction is Direction.FORWARD else out[::-1]


def interleaved(passes: Sequence[Fused]) -> Fused:
    """Passes as one: the communication of each hides behind the computation of all."""
    spans = [span for own in passes for span in own.spans]
    hidden = [span for own in passes for span in own.hidden]
    computing = sum(s.seconds for s in spans if not s.activity.is_communication)
    moving = sum(s.seconds for s in spans if s.activity.is_communication)
    shown = max(moving - computing, 0.0) / moving if moving else 0.0
    kept = [Span(a, s * shown) if a.is_communication else Span(a, s) for a, s in spans]
    hidden += [Span(a, s * (1 - shown)) for a, s in spans if a.is_communication]
    return fuse(kept, hidden)


def spans_of(piece: Piece, each: Pass) -> tuple[list[Span], tuple[Span, ...]]:
    """What a piece of a pass is made of, and what it hides."""
    block = piece.block
    if each.direction is Direction.FORWARD:
        parts, hidden = block.forward, block.hidden_forward
    elif each.direction is Direction.WEIGHT:
        parts, hidden = block.weight, ()
    else:
        parts, hidden = (*block.again, *block.backward), block.hidden_backward
        if each.whole:
            parts = (*parts, *block.weight)
    scaled = [Span(activity, seconds * piece.layers) for activity, seconds in parts]
    return scaled, tuple(Span(activity, seconds * piece.layers) for activity, seconds in hidden)
