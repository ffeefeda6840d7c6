"""Edges at the redistribution that MindSpore inserts between two layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, CollectiveModel, CurveTable
from costmodel.mindspore.redistribution import MindsporeRedistribution
from costmodel.redistribution import UNREACHABLE_S, Shardable, Step
from ir.dialects import Dialect
from ir.dtypes import dtype_bytes
from ir.layout import Layout
from ir.plan_enums import Cause
from planner.candidates.layout_tables import (
    LayoutPair,
    LayoutTable,
    local_elements,
    shard_elements,
)
from planner.lowering.edges import (
    EdgeKind,
    FloatArray,
    Transfer,
    backward_cause,
    forward_cause,
    in_order,
    is_carried,
    is_same,
    is_used_as,
    tier_stack,
)
from planner.lowering.overlap import Messages
from topology.mesh import Mesh


@dataclass(slots=True)
class MindsporeEdges:
    """MindSpore's own redistribution; gradients are sums over every axis that does not split
    their tensor.

    The loss is divided by the number of repetitions, so the gradient of a repeated tensor is a
    share of the sum everywhere. It passes back through slices for nothing, through all-gathers as
    reduce-scatters, and the mirror operator of a parameter all-reduces what is left.
    """

    redistribution: MindsporeRedistribution
    model: CollectiveModel
    mesh: Mesh
    micro_batches: int = 1
    once_per: float = 1.0
    """Micro-batches that share what happens once in a step."""
    _mirror: dict[tuple[Layout, Shardable], Step | None] = field(default_factory=dict)
    _mirrors: dict[tuple[Layout, ...], CurveTable] = field(default_factory=dict)
    _crossed: dict[tuple[Layout, ...], NDArray[np.bool_]] = field(default_factory=dict)

    def steady(self) -> MindsporeEdges:
        return replace(self, once_per=math.inf)

    def at_rest(self) -> MindsporeEdges:
        return replace(self, micro_batches=1, once_per=1.0)

    def prepare(self, pairs: Sequence[tuple[LayoutTable, LayoutTable]]) -> None:
        self.redistribution.prepare((source.forward, target.forward) for source, target in pairs)

    def times(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> FloatArray:
        forward = self.redistribution.pair_time_s(kind.tensor, source.forward, target.forward)
        total = forward * (1 + int(kind.regathered) + int(kind.gradient))
        if kind.parameter:
            if kind.gradient:
                if self.micro_batches == 1 and self.once_per != 1:
                    total = forward * (1 + int(kind.regathered)) + forward / self.once_per
                mirror_s = self._mirror_s(kind.tensor, source) / self.once_per
                total = total + mirror_s[:, None]
            total = np.where(is_used_as(source, target), total, UNREACHABLE_S)
        if kind.tied:
            total = np.where(is_same(source, target), total, UNREACHABLE_S)
        if kind.carried:
            total = np.where(is_carried(source, target), total, UNREACHABLE_S)
        return np.minimum(total, UNREACHABLE_S)

    def messages(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> Messages:
        moves, ends = self.redistribution, (source.forward, target.forward)
        gather = tier_stack(
            moves.pair_time_s(kind.tensor, *ends), moves.pair_tier_s(kind.tensor, *ends)
        )
        none = np.zeros_like(gather)
        again = gather if kind.regathered else none
        if not kind.gradient:
            return Messages(gather, again, none, none)
        single = self.micro_batches == 1
        mirror_s = self._mirror_s(kind.tensor, source)
        stack = np.vstack([mirror_s[None], self._tiers_of_copies(source) * mirror_s])
        once = np.broadcast_to(stack[:, :, None], gather.shape)
        return Messages(gather, again, none if single else gather, once + gather * single)

    def transfers(
        self, kind: EdgeKind, source: LayoutPair, target: LayoutPair
    ) -> tuple[Transfer, ...]:
        steps = self.redistribution.steps(kind.tensor, source.forward, target.forward)
        there = in_order(steps, source.forward, forward_cause(kind))
        out = there * (2 if kind.regathered else 1)
        if kind.gradient:
            out += tuple(self._back(each, backward_cause(kind)) for each in reversed(there))
            mirror = self._mirrored(source.forward, kind.tensor) if kind.parameter else None
            if mirror is not None:
                share = self._share(source.forward)
                out += (Transfer(mirror, Cause.GRADIENT_SYNC, share, source.forward, once=True),)
        return out

    def _back(self, forward: Transfer, cause: str) -> Transfer:
        """The same step for the gradient, the other way round."""
        step, before, after = forward.step, self._share(forward.after), self._share(forward.before)
        kind = Collective.REDUCE_SCATTER if step.kind is Collective.ALL_GATHER else step.kind
        return Transfer(replace(step, kind=kind, result=after), cause, before, after)

    def _share(self, layout: Layout) -> Layout:
        """A gradient in this layout: a share of the sum over every axis that does not split it."""
        axes = range(len(self.mesh.axes))
        return Layout(layout.dims, tuple(a for a in axes if a not in layout.split_axes))

    def _mirror_s(self, tensor: Shardable, source: LayoutTable) -> FloatArray:
        """Seconds of `_mirrored` for a parameter in each state, shape (states,)."""
        if source.forward not in self._mirrors:
            groups = [(Collective.ALL_REDUCE, self._copies(rest)) for rest in source.forward]
            self._mirrors[source.forward] = self.model.table(groups)
        rows = np.arange(len(source.forward))
        nbytes = shard_elements(tensor.dims, source, self.mesh) * dtype_bytes(tensor.dtype)
        return self._mirrors[source.forward].time_s(
            rows, nbytes.astype(np.float64), tensor.latency_scale
        )

    def _tiers_of_copies(self, source: LayoutTable) -> NDArray[np.bool_]:
        """Whether the copies of a parameter in each state lie across a tier, (tiers, states)."""
        if source.forward not in self._crossed:
            crossed = [self.mesh.tiers_of(self._copies(rest)) for rest in source.forward]
            held = [[tier in own for own in crossed] for tier in self.mesh.used_tiers]
            self._crossed[source.forward] = np.array(held, dtype=bool).reshape(-1, len(crossed))
        return self._crossed[source.forward]

    def _copies(self, rest: Layout) -> tuple[int, ...]:
        """Axes that do not split a parameter at rest."""
        return tuple(a for a in range(len(self.mesh.axes)) if a not in rest.split_axes)

    def _mirrored(self, rest: Layout, tensor: Shardable) -> Step | None:
        """All-reduce of the gradient over the axes that do not split the parameter at rest."""
        key = (rest, tensor)
        if key not in self._mirror:
            axes = self._copies(rest)
            if not axes:
                self._mirror[key] = None
            else:
                nbytes = local_elements(tensor.dims, rest, self.mesh) * dtype_bytes(tensor.dtype)
                time_s = float(
                    self.model.time_s(Collective.ALL_REDUCE, nbytes, axes, tensor.latency_scale)
                )
                self._mirror[key] = Step(Collective.ALL_REDUCE, axes, nbytes, time_s, rest)
        return self._mirror[key]


def inserted_edges(
    dialect: Dialect, mesh: Mesh, model: CollectiveModel, micro_batches: int, once_per: float
) -> MindsporeEdges:
    """The pricer of a mesh; arguments as those of `edge_pricer`."""
    exact = MindsporeRedistribution(model, mesh, dialect.all_to_all)
    return MindsporeEdges(exact, model, mesh, micro_batches, once_per)
