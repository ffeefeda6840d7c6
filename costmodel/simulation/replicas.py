"""What a stage exchanges with its replicas beside its passes: parameters and gradients.

Gathers are ahead of the layers that need them, reductions behind those that made them. At a port
where both take turns, gradients of a piece wait until the gathers ahead are issued: computation
waits for those, and for gradients nothing does until the update.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from costmodel.simulation.job import Sharding
from costmodel.simulation.passes import Piece
from costmodel.simulation.programme import Part, Programme, Use, Work

_SLOWER = Work("slower beside transfers")


class _Ready(NamedTuple):
    """Gradients of a piece that are to be reduced."""

    gathered: int
    """Pieces gathered before."""
    piece: Piece
    after: int
    """What makes them."""


@dataclass(slots=True)
class Replicas:
    """The exchange of one stage."""

    programme: Programme
    sharding: Sharding
    gathers: int
    """Stream of gathers."""
    reductions: int
    """Stream of reductions; the same one where both take turns."""
    uses: Sequence[Use]
    """What a transfer takes of what is shared."""
    prefetch: int
    overlap: bool
    using: list[int] = field(default_factory=list)
    """Computations with gathered parameters, in order."""
    ready: deque[_Ready] = field(default_factory=deque)
    reduced: list[int] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)
    """Transfers, at which all replicas wait for one another."""
    owed_s: float = 0.0
    """By how much the next transfer takes longer."""

    def gather(self, piece: Piece, before: int) -> list[int]:
        """Gather the parameters of a piece; what it has to wait for.

        Args:
            piece: what needs them.
            before: the computation before it, -1 for none.
        """
        if not piece.block.gather_s:
            return []
        needs: list[int] = []
        if self.sharding.gather_each_pass:
            ahead = len(self.using) - 1 - self.prefetch
            while self.ready and self.ready[0].gathered <= ahead:
                self._reduce(self.ready.popleft())
            needs = [self.using[ahead]] if ahead >= 0 else []
            needs = needs if self.prefetch else [before]
        return [
            self._transfer(
                piece,
                self.sharding.gather,
                piece.block.gather_s,
                self.gathers,
                [task for task in needs if task >= 0],
            )
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
        if self.sharding.gather_each_pass:
            self.ready.append(made)
        else:
            self._reduce(made)

    def finish(self) -> list[int]:
        """Issue all reductions that are left; what the update waits for."""
        while self.ready:
            self._reduce(self.ready.popleft())
        return self.reduced[-1:]

    def slowed(self, piece: Piece, *, gathers: bool, syncs: bool) -> list[Part]:
        """What a computation takes longer beside the exchange of its piece.

        The links are in use meanwhile, so that no transfer gains by it. Where nothing runs beside
        anything, it is a part of the transfers themselves.
        """
        share = self.sharding.shown * piece.layers
        both = (
            (self.sharding.gather, self.gathers, share * piece.block.gather_s * gathers),
            (self.sharding.sync, self.reductions, share * piece.block.sync_s * syncs),
        )
        found = [(self._placed(work), stream, seconds) for work, stream, seconds in both if seconds]
        if not self.overlap:
            return [Part(work, seconds) for work, _, seconds in found]
        for work, stream, seconds in found:
            self.programme.add(piece.block.name, work, seconds, (stream,), (), self.uses)
        return [Part(_SLOWER, sum(seconds for _, _, seconds in found))] if found else []

    def delay(self, seconds: float) -> bool:
        """Lengthen what runs beside a message of so many seconds; whether anything does."""
        if self.sharding.gather_each_pass:
            self.owed_s += seconds
            return True
        if self.reduced:
            self.programme.seconds[self.reduced[-1]] += seconds
        return bool(self.reduced)

    def _reduce(self, ready: _Ready) -> None:
        piece, sync_s = ready.piece, ready.piece.block.sync_s
        self.reduced.append(
            self._transfer(piece, self.sharding.sync, sync_s, self.reductions, [ready.after])
        )

    def _transfer(
        self, piece: Piece, work: Work, each_s: float, stream: int, needs: list[int]
    ) -> int:
        seconds = each_s * piece.layers * (1.0 - self.sharding.shown) + self.owed_s
        self.owed_s = 0.0
        task = self.programme.add(
            piece.block.name, self._placed(work), seconds, (stream,), needs, self.uses
        )
        self.joined.append(task)
        return task

    def _placed(self, work: Work) -> Work:
        return work._replace(tier=self.sharding.tier)
