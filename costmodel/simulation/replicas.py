"""What a stage exchanges with its replicas beside its passes: parameters and gradients.

Gathers are ahead of the layers that need them, reductions behind those that made them. At a port
where both take turns, gradients of a piece wait until the gathers ahead are issued: computation
waits for those, and for gradients nothing does until the update. What software does not send
beside the passes, though it is exchanged once in a step, is reduced when all passes of the stage
are over and gathered behind the update.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from costmodel.schedules.orders import Direction, Pass
from costmodel.simulation.effects import Contention
from costmodel.simulation.stage_tasks import Device
from costmodel.simulation.step import Block, Sharding
from costmodel.simulation.task_graph import Activity, Span

_SLOWER = Activity("slowed by transfers")


class _Ready(NamedTuple):
    """Gradients of a piece that are to be reduced."""

    gathered: int
    """Pieces gathered before."""
    piece: Piece
    after: int
    """What makes them."""


class Piece(NamedTuple):
    """So many layers of a block, run as one task."""

    block: Block
    layers: float


@dataclass(slots=True)
class Replicas:
    """The exchange of one stage."""

    device: Device
    sharding: Sharding
    gathers: int = field(init=False)
    """Stream of gathers."""
    reductions: int = field(init=False)
    """Stream of reductions; the same one where both take turns."""
    using: list[int] = field(default_factory=list)
    """Computations with gathered parameters, in order."""
    ready: deque[_Ready] = field(default_factory=deque)
    late_gather_s: float = 0.0
    """Of parameters that are gathered behind the update."""
    late_sync_s: float = 0.0
    """Of gradients that are reduced behind the last pass."""
    reduced: list[int] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)
    """Transfers, at which all replicas wait for one another."""
    owed_s: float = 0.0
    """By how much the next transfer takes longer."""

    def __post_init__(self) -> None:
        self.gathers = self.reductions = self.device.compute
        if self.overlap:
            self.gathers = self.reductions = self.device.stream("replicas")
            if self.device.effects.contention is not Contention.QUEUE:
                self.reductions = self.device.stream("reductions")

    @property
    def overlap(self) -> bool:
        return self.device.effects.overlap

    def gather(self, piece: Piece, before: int) -> list[int]:
        """Gather the parameters of a piece; what it has to wait for.

        Args:
            piece: what needs them.
            before: the computation before it, -1 for none.
        """
        if not piece.block.gather_s:
            return []
        seconds, needs = piece.layers * piece.block.gather_s, list[int]()
        if not self.sharding.gather_each_pass:
            self.late_gather_s += seconds * (1.0 - self._beside)
            seconds *= self._beside
            if not seconds:
                return []
        else:
            prefetch = self.device.effects.prefetch
            ahead = len(self.using) - 1 - prefetch
            while self.ready and self.ready[0].gathered <= ahead:
                self._reduce(self.ready.popleft())
            needs = [self.using[ahead]] if ahead >= 0 else []
            needs = needs if prefetch else [before]
        needs = [task for task in needs if task >= 0]
        return [
            self._transfer(piece.block.name, self.sharding.gather, seconds, self.gathers, needs)
        ]

    def used(self, piece: Piece, task: int) -> None:
        """Note the computation that gathered parameters were for."""
        if piece.block.gather_s:
            self.using.append(task)

    def sync(self, piece: Piece, after: int) -> None:
        """Reduce the gradients of a piece, once the gathers ahead are issued."""
        if not piece.block.sync_s:
            return
        made = _Ready(len(self.using), piece, after)
        if not self.sharding.sync_each_micro:
            self.late_sync_s += piece.layers * piece.block.sync_s * (1.0 - self._beside)
            if not self._beside:
                return
        if self.sharding.gather_each_pass and self.overlap:
            self.ready.append(made)
        else:
            self._reduce(made)

    def finish(self, after: int) -> list[int]:
        """Issue all reductions that are left, behind a computation; what the update waits for."""
        while self.ready:
            self._reduce(self.ready.popleft())
        if self.late_sync_s:
            late = self.sharding.sync, self.late_sync_s, self.reductions
            task = self._transfer("gradients", *late, [after])
            self.reduced.append(task)
        return self.reduced[-1:]

    def gather_late(self, needs: Sequence[int]) -> None:
        """Gather behind the update what is left."""
        if self.late_gather_s:
            late = self.sharding.gather, self.late_gather_s, self.gathers
            self._transfer("parameters", *late, needs)

    def slowed(self, piece: Piece, each: Pass, *, gathers: bool, syncs: bool) -> list[Span]:
        """What a pass takes longer beside the exchange of other pieces, which takes longer too.

        The first gather has no computation beside it, the first computation no reduction.
        """
        if not self.overlap or not self.sharding.gather_each_pass:
            return []
        forward = each.direction is Direction.FORWARD
        slower = piece.block.slower_forward if forward else piece.block.slower_backward
        share = piece.layers if forward else piece.layers / 2
        ahead = gathers and self.device.effects.prefetch > 0 and bool(self.using)
        behind = syncs and bool(self.ready or self.reduced)
        exchange = ((self.sharding.gather, self.gathers, ahead),
                    (self.sharding.sync, self.reductions, behind))  # fmt: skip
        for activity, stream, runs in exchange:
            if runs and slower.moving_s:
                self._add(piece.block.name, activity, share * slower.moving_s, stream, ())
        seconds = share * slower.computing_s * (ahead + behind)
        return [Span(_SLOWER, seconds)] if seconds else []

    def delay(self, seconds: float) -> bool:
        """Lengthen what runs beside a message of so many seconds; whether anything does."""
        if self.sharding.gather_each_pass:
            self.owed_s += seconds
            return True
        if self.reduced:
            self.device.graph.seconds[self.reduced[-1]] += seconds
        return bool(self.reduced)

    @property
    def _beside(self) -> float:
        return self.sharding.beside if self.overlap else 0.0

    def _reduce(self, ready: _Ready) -> None:
        piece, sync = ready.piece, self.sharding.sync
        share = 1.0 if self.sharding.sync_each_micro else self._beside
        seconds = piece.layers * piece.block.sync_s * share
        self.reduced.append(
            self._transfer(piece.block.name, sync, seconds, self.reductions, [ready.after])
        )

    def _transfer(
        self, label: str, activity: Activity, seconds: float, stream: int, needs: Sequence[int]
    ) -> int:
        seconds, self.owed_s = seconds + self.owed_s, 0.0
        task = self._add(label, activity, seconds, stream, needs)
        self.joined.append(task)
        return task

    def _add(
        self, label: str, activity: Activity, seconds: float, stream: int, needs: Sequence[int]
    ) -> int:
        placed, uses = (
            activity._replace(tier=self.sharding.tier),
            self.device.uses(self.sharding.tier),
        )
        return self.device.graph.add(label, placed, seconds, (stream,), needs, uses)
