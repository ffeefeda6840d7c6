"""Prices of edges: redistribution forward and of the gradient back, and the memory of copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, CollectiveModel, CurveTable
from costmodel.mindspore.redistribution import MindsporeRedistribution
from costmodel.redistribution import UNREACHABLE_S, Redistribution, Shardable, Step
from ir.dtypes import dtype_bytes
from ir.graph import Tensor
from ir.layout import Layout
from ir.plan_enums import Cause
from planner.candidates.dialects import Dialect
from planner.candidates.layout_tables import (
    LayoutPair,
    Layouts,
    LayoutTable,
    local_elements,
    port_elements,
)
from planner.lowering.overlap import Messages
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]

BUCKET_BYTES = 64 * 2**20
"""Gradients and weights are sent in buckets of this size; a smaller tensor pays its share of the
latency.
Source: MindSpore's default fusion threshold, 64 MB."""
GATHERED_TOGETHER = 4
"""Tensors of one message in which parameters that rest in parts are gathered, or their gradients
scattered: each pays at least its share of the latency, however small it is. What a layer needs is
gathered for it and freed behind it, so buckets do not reach over layers as those of whole gradients
do. A block of GPT-2 or ViT has four matrices, a bottleneck of ResNet three or four kernels, a block
of Llama seven.
Source: PyTorch, `fully_shard`: the parameters of one module are a group, gathered in one
collective. DeepSpeed keeps smaller ones than `stage3_param_persistence_threshold`, 100,000
elements, whole, as latency is most of their gathers.
"""


@dataclass(frozen=True, slots=True)
class EdgeKind:
    """What flows along an edge."""

    tensor: Shardable
    gradient: bool
    """A gradient flows back."""
    parameter: bool = False
    """The source is a parameter at rest: gathered for use, its gradient reduced to the layout at
    rest.
    """
    regathered: bool = False
    """The forward redistribution is repeated for the backward pass."""
    tied: bool = False
    """The source is what all readers of a parameter have in common: it has the layout of each."""
    carried: bool = False
    """The reader has no layout of its own: it takes that of the source if it can pass it on."""
    at_end: bool = False
    """A parameter that is read first: nothing runs beside its first gather and last reduction."""


@dataclass(slots=True)
class EdgeKinds:
    """Kinds of edges, each once and with a number."""

    _known: dict[tuple[object, ...], tuple[int, EdgeKind]] = field(default_factory=dict)

    def of(
        self,
        tensor: Tensor,
        *,
        gradient: bool = False,
        parameter: bool = False,
        again: bool = False,
        tied: bool = False,
        bucketed: bool = False,
        carried: bool = False,
        at_end: bool = False,
    ) -> tuple[int, EdgeKind]:
        """What flows, and a number that is the same for what is alike.

        Parameters are sent in buckets, and so are gradients that arrive at one (`bucketed`).
        """
        bucketed = bucketed or parameter
        facts = (gradient, parameter, again, tied, bucketed, carried, at_end)
        key = (tensor.dims, tensor.dtype, *facts)
        found = self._known.get(key)
        if found is None:
            scale = bucket_share(tensor.nbytes) if bucketed else 1.0
            shardable = Shardable(tensor.dims, tensor.dtype, scale)
            kind = EdgeKind(shardable, gradient, parameter, again, tied, carried, at_end)
            found = self._known[key] = (len(self._known), kind)
        return found


@dataclass(frozen=True, slots=True)
class Transfer:
    """One collective of a plan: a step of a redistribution with its direction and cause."""

    step: Step
    cause: str
    before: Layout
    after: Layout
    once: bool = False
    """It happens once in a step, however many micro-batches there are."""


def _chain(steps: Sequence[Step], source: Layout, cause: str) -> tuple[Transfer, ...]:
    """Steps in order, each with the layout that it starts from."""
    out: list[Transfer] = []
    for step in steps:
        out.append(Transfer(step, cause, source, step.result))
        source = step.result
    return tuple(out)


def bucket_share(nbytes: float) -> float:
    """Share of the latency of a bucket that reaches over layers, as 64 MiB pay all of it."""
    return min(1.0, nbytes / BUCKET_BYTES)


def gathered_share(share: float) -> float:
    """The same of a parameter that rests in parts and is gathered for its layer.

    >>> gathered_share(bucket_share(256)), gathered_share(bucket_share(2**25))
    (0.25, 0.5)
    """
    return max(share, 1 / GATHERED_TOGETHER)


class EdgePricer(Protocol):
    """Prices one mesh for one target."""

    def prepare(self, pairs: Sequence[tuple[LayoutTable, LayoutTable]]) -> None:
        """Work out at once what `times` is asked for later."""
        ...

    def times(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> FloatArray:
        """Seconds for each pair of states, shape (source states, target states)."""
        ...

    def messages(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> Messages:
        """What `times` of a parameter is made of."""
        ...

    def transfers(
        self, kind: EdgeKind, source: LayoutPair, target: LayoutPair
    ) -> tuple[Transfer, ...]:
        """The collectives behind one entry of `times`, in order."""
        ...


def _forward_cause(kind: EdgeKind) -> str:
    return Cause.PARAMETER_GATHER if kind.parameter else Cause.FORWARD


def _backward_cause(kind: EdgeKind) -> str:
    return Cause.GRADIENT_SYNC if kind.parameter else Cause.ACTIVATION_GRADIENT


def _stack(time_s: FloatArray, tiers_s: FloatArray) -> FloatArray:
    """All messages, then those of each tier, shape (1 + tiers, S, T)."""
    return np.concatenate([time_s[None], tiers_s])


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
        gather = _stack(forward, moves.pair_tier_s(alone, source.forward, target.forward))
        back = np.zeros_like(gather)
        if kind.gradient:
            ends = target.gradient, source.gradient
            sizes = [kind.tensor] if alone is kind.tensor else [kind.tensor, alone]
            found = [
                _stack(moves.pair_time_s(each, *ends), moves.pair_tier_s(each, *ends))
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
        there = _chain(steps, source.forward, _forward_cause(kind))
        out = there * (2 if kind.regathered else 1)
        if kind.gradient:
            tensor = alone if any(step.time_s > 0 for step in steps) else kind.tensor
            back = self.redistribution.steps(tensor, target.gradient, source.gradient)
            chain = _chain(back, target.gradient, _backward_cause(kind))
            once = kind.parameter and source.forward == target.forward
            out += tuple(replace(each, once=once) for each in chain)
        return out

    def _gathered(self, kind: EdgeKind) -> Shardable:
        """A tensor with the share of a latency that it pays where it is gathered for its layer."""
        share = kind.tensor.latency_scale
        if self.flat or not kind.parameter or share >= gathered_share(share):
            return kind.tensor
        return replace(kind.tensor, latency_scale=gathered_share(share))


@dataclass(slots=True)
class MindsporeEdges:
    """MindSpore's own redistribution; gradients are sums over every axis that does not split
    their tensor.

    The loss is divided by the number of repetitions, so the gradient of a repeated tensor is a
    share of the sum everywhere. It
    passes back through slices for nothing, through all-gathers as reduce-scatters, and the
    mirror operator of a
    parameter all-reduces what is left.
    """

    redistribution: MindsporeRedistribution
    model: CollectiveModel
    mesh: Mesh
    micro_batches: int = 1
    once_per: float = 1.0
    """Micro-batches that share what happens once in a step."""
    _mirror: dict[tuple[Layout, Shardable], Step | None] = field(default_factory=dict)
    _mirrors: dict[tuple[Layout, ...], CurveTable] = field(default_factory=dict)

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
        gather = _stack(
            moves.pair_time_s(kind.tensor, *ends), moves.pair_tier_s(kind.tensor, *ends)
        )
        none = np.zeros_like(gather)
        again = gather if kind.regathered else none
        if not kind.gradient:
            return Messages(gather, again, none, none)
        single = self.micro_batches == 1
        mirror_s = self._mirror_s(kind.tensor, source)
        crossed = [self.mesh.tiers_of(self._copies(rest)) for rest in source.forward]
        held = [[tier in own for own in crossed] for tier in self.mesh.used_tiers]
        stack = np.vstack([mirror_s[None], np.array(held).reshape(-1, len(crossed)) * mirror_s])
        once = np.broadcast_to(stack[:, :, None], gather.shape)
        return Messages(gather, again, none if single else gather, once + gather * single)

    def transfers(
        self, kind: EdgeKind, source: LayoutPair, target: LayoutPair
    ) -> tuple[Transfer, ...]:
        steps = self.redistribution.steps(kind.tensor, source.forward, target.forward)
        there = _chain(steps, source.forward, _forward_cause(kind))
        out = there * (2 if kind.regathered else 1)
        if kind.gradient:
            out += tuple(self._back(each, _backward_cause(kind)) for each in reversed(there))
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
        nbytes = port_elements(tensor.dims, source, self.mesh) * dtype_bytes(tensor.dtype)
        return self._mirrors[source.forward].time_s(
            rows, nbytes.astype(np.float64), tensor.latency_scale
        )

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


def is_used_as(source: LayoutTable, target: LayoutTable) -> NDArray[np.bool_]:
    """Where an operator reads a parameter in the layout that the parameter has in use.

    A parameter of MindSpore has one layout for all its readers; `gradient` of its state holds it.
    """
    return _equal(source.gradient, target.forward)


def is_same(source: LayoutTable, target: LayoutTable) -> NDArray[np.bool_]:
    """Where a tensor is read in the layout that it has."""
    return _equal(source.forward, target.forward)


def is_carried(source: LayoutTable, target: LayoutTable) -> NDArray[np.bool_]:
    """Where a tensor is read in the layout that it has; everywhere if its reader offers none such.

    MindSpore gives a reshape no layout: it redistributes once, from what makes the operand to what
    reads the result.
    """
    same = is_same(source, target)
    return np.asarray(same | ~same.any(axis=1, keepdims=True))


def _equal(sources: Layouts, targets: Layouts) -> NDArray[np.bool_]:
    """Which pairs are alike, shape (len(sources), len(targets))."""
    number = {facts: i for i, facts in enumerate(sources.facts)}
    own = np.array([number[facts] for facts in sources.facts], dtype=np.intp)
    other = np.array([number.get(facts, -1) for facts in targets.facts], dtype=np.intp)
    return np.asarray(own[:, None] == other[None, :])


def edge_pricer(
    dialect: Dialect,
    mesh: Mesh,
    model: CollectiveModel,
    micro_batches: int = 1,
    once_per: float = 1.0,
) -> EdgePricer:
    """The pricer of a target's redistribution; costs are those of one micro-batch.

    Args:
        dialect: of the target.
        mesh: of devices.
        model: of collectives.
        micro_batches: of a step.
        once_per: micro-batches that share what happens once in a step.
    """
    if dialect.partial_edges:
        moves = Redistribution(model, mesh, dialect.max_waste, dialect.eager_sums)
        return FreeEdges(moves, micro_batches, once_per)
    exact = MindsporeRedistribution(model, mesh, dialect.all_to_all)
    return MindsporeEdges(exact, model, mesh, micro_batches, once_per)
