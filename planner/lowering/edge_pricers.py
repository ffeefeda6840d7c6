"""The pricer of edges of a target without moves of its own: from any layout to any other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives.buckets import gathered_share
from costmodel.redistribution import UNREACHABLE_S, Redistribution, Shardable
from planner.candidates.layout_tables import (
    LayoutPair,
    LayoutTable,
)
from planner.lowering.edges import (
    EdgeKind,
    FloatArray,
    Transfer,
    backward_cause,
    forward_cause,
    in_order,
    is_same,
    tier_stack,
)
from planner.lowering.overlap import Messages


@dataclass(slots=True)
class FreeEdges:
    """Any sequence of moves; sums may stay partial."""

    redistribution: Redistribution
    micro_batches: int = 1
    once_per: float = 1.0
    """Micro-batches that share what happens once in a step."""
    flat: bool = False
    """Buckets reach over layers for parameters that rest in parts too: what ZeRO 1 and 2 send lies
    in flat buffers."""

    def steady(self) -> FreeEdges:
        return replace(self, once_per=math.inf)

    def at_rest(self) -> FreeEdges:
        return replace(self, micro_batches=1, once_per=1.0, flat=True)

    def prepare(self, pairs: Sequence[tuple[LayoutTable, LayoutTable]]) -> None:
        """Nothing: the tables of a tensor have all its layouts."""

    def times(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> FloatArray:
        forward, alone = self._forward_s(kind, source, target)
        total = forward * (2 if kind.regathered else 1)
        if kind.gradient:
            back = self.redistribution.pair_time_s(kind.tensor, target.gradient, source.gradient).T
            if alone is not kind.tensor and forward.any():
                own = self.redistribution.pair_time_s(alone, target.gradient, source.gradient).T
                back = np.where(forward > 0, own, back)
            if kind.parameter and self.once_per != 1:
                back = np.where(self._once(source, target), back / self.once_per, back)
            total = total + back
        return np.minimum(total, UNREACHABLE_S)

    def _forward_s(
        self, kind: EdgeKind, source: LayoutTable, target: LayoutTable
    ) -> tuple[FloatArray, Shardable]:
        alone = self._gathered(kind)
        return self.redistribution.pair_time_s(alone, source.forward, target.forward), alone

    def _once(self, source: LayoutTable, target: LayoutTable) -> NDArray[np.bool_]:
        """Which gradients are reduced once in a step: terms add up where they arise if the gradient
        rests in the layout of use.
        """
        return (self.micro_batches == 1) | is_same(source, target)

    def messages(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> Messages:
        moves = self.redistribution
        forward, alone = self._forward_s(kind, source, target)
        gather = tier_stack(forward, moves.pair_tier_s(alone, source.forward, target.forward))
        back = np.zeros_like(gather)
        if kind.gradient:
            ends = target.gradient, source.gradient
            sizes = [kind.tensor] if alone is kind.tensor else [kind.tensor, alone]
            found = [
                tier_stack(moves.pair_time_s(each, *ends), moves.pair_tier_s(each, *ends))
                for each in sizes
            ]
            back = np.where(forward > 0, *(own.transpose(0, 2, 1) for own in (found[-1], found[0])))
        once = self._once(source, target)
        again = gather if kind.regathered else np.zeros_like(gather)
        return Messages(gather, again, np.where(once, 0.0, back), np.where(once, back, 0.0))

    def transfers(
        self, kind: EdgeKind, source: LayoutPair, target: LayoutPair
    ) -> tuple[Transfer, ...]:
        alone = self._gathered(kind)
        steps = self.redistribution.steps(alone, source.forward, target.forward)
        there = in_order(steps, source.forward, forward_cause(kind))
        out = there * (2 if kind.regathered else 1)
        if kind.gradient:
            tensor = alone if any(step.time_s > 0 for step in steps) else kind.tensor
            back = self.redistribution.steps(tensor, target.gradient, source.gradient)
            chain = in_order(back, target.gradient, backward_cause(kind))
            once = kind.parameter and source.forward == target.forward
            out += tuple(replace(each, once=once) for each in chain)
        return out

    def _gathered(self, kind: EdgeKind) -> Shardable:
        """A tensor with the share of a latency that it pays where it is gathered for its layer."""
        share = kind.tensor.latency_scale
        if self.flat or not kind.parameter or share >= gathered_share(share):
            return kind.tensor
        return replace(kind.tensor, latency_scale=gathered_share(share))
