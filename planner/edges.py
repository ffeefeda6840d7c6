"""Prices of edges: redistribution forward and of the gradient back, and the memory of copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, CollectiveModel
from costmodel.mindspore_redistribution import MindsporeRedistribution
from costmodel.redistribution import UNREACHABLE_S, Redistribution, Shardable, Step
from ir.dtypes import dtype_bytes
from ir.layout import Layout
from planner.dialects import Dialect
from planner.ports import Port, PortState, local_elements, port_elements
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True)
class Transfer:
    """One collective of a plan: a step of a redistribution with its direction and cause."""

    step: Step
    cause: str
    before: Layout
    after: Layout


def _chain(steps: Sequence[Step], source: Layout, cause: str) -> tuple[Transfer, ...]:
    """Steps in order, each with the layout that it starts from."""
    out: list[Transfer] = []
    for step in steps:
        out.append(Transfer(step, cause, source, step.result))
        source = step.result
    return tuple(out)


class EdgePricer(Protocol):
    """Prices one mesh for one target."""

    def times(self, kind: EdgeKind, source: Port, target: Port) -> FloatArray:
        """Seconds for each pair of states, shape (source states, target states)."""
        ...

    def transfers(
        self, kind: EdgeKind, source: PortState, target: PortState
    ) -> tuple[Transfer, ...]:
        """The collectives behind one entry of `times`, in order."""
        ...


CAUSE_FORWARD = "forward"
CAUSE_GRADIENT = "activation gradient"
CAUSE_GATHER = "parameter gather"
CAUSE_SYNC = "gradient sync"
CAUSE_INSIDE = "inside operators"


def _forward_cause(kind: EdgeKind) -> str:
    return CAUSE_GATHER if kind.parameter else CAUSE_FORWARD


def _backward_cause(kind: EdgeKind) -> str:
    return CAUSE_SYNC if kind.parameter else CAUSE_GRADIENT


@dataclass(slots=True)
class FreeEdges:
    """Any sequence of moves; sums may stay partial."""

    redistribution: Redistribution

    def times(self, kind: EdgeKind, source: Port, target: Port) -> FloatArray:
        forward = self.redistribution.pair_time_s(kind.tensor, source.forward, target.forward)
        total = forward * (2 if kind.regathered else 1)
        if kind.gradient:
            total = (
                total
                + self.redistribution.pair_time_s(kind.tensor, target.gradient, source.gradient).T
            )
        return np.minimum(total, UNREACHABLE_S)

    def transfers(
        self, kind: EdgeKind, source: PortState, target: PortState
    ) -> tuple[Transfer, ...]:
        steps = self.redistribution.steps(kind.tensor, source.forward, target.forward)
        there = _chain(steps, source.forward, _forward_cause(kind))
        out = there * (2 if kind.regathered else 1)
        if kind.gradient:
            back = self.redistribution.steps(kind.tensor, target.gradient, source.gradient)
            out += _chain(back, target.gradient, _backward_cause(kind))
        return out


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
    _mirror: dict[tuple[Layout, Shardable], Step | None] = field(default_factory=dict)
    _mirrors: dict[tuple[Layout, ...], FloatArray] = field(default_factory=dict)

    def times(self, kind: EdgeKind, source: Port, target: Port) -> FloatArray:
        forward = self.redistribution.pair_time_s(kind.tensor, source.forward, target.forward)
        total = forward * (1 + int(kind.regathered) + int(kind.gradient))
        if kind.parameter:
            if kind.gradient:
                total = total + self._mirror_s(kind.tensor, source)[:, None]
            total = np.where(is_used_as(source, target), total, UNREACHABLE_S)
        if kind.tied:
            total = np.where(is_same(source, target), total, UNREACHABLE_S)
        return np.minimum(total, UNREACHABLE_S)

    def transfers(
        self, kind: EdgeKind, source: PortState, target: PortState
    ) -> tuple[Transfer, ...]:
        steps = self.redistribution.steps(kind.tensor, source.forward, target.forward)
        there = _chain(steps, source.forward, _forward_cause(kind))
        out = there * (2 if kind.regathered else 1)
        if kind.gradient:
            out += tuple(self._back(each, _backward_cause(kind)) for each in reversed(there))
            mirror = self._mirrored(source.forward, kind.tensor) if kind.parameter else None
            if mirror is not None:
                share = self._share(source.forward)
                out += (Transfer(mirror, CAUSE_SYNC, share, source.forward),)
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

    def _mirror_s(self, tensor: Shardable, source: Port) -> FloatArray:
        """Seconds of `_mirrored` for a parameter in each state, shape (states,)."""
        if source.forward not in self._mirrors:
            found = [self._mirror_coefficients(layout) for layout in source.forward]
            self._mirrors[source.forward] = np.array(found, dtype=np.float64).T
        latency, per_byte = self._mirrors[source.forward]
        nbytes = port_elements(tensor.dims, source, self.mesh) * dtype_bytes(tensor.dtype)
        return np.asarray(latency * tensor.latency_scale + nbytes * per_byte)

    def _mirror_coefficients(self, rest: Layout) -> tuple[float, float]:
        axes = self._copies(rest)
        return self.model.coefficients(Collective.ALL_REDUCE, axes) if axes else (0.0, 0.0)

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


def is_used_as(source: Port, target: Port) -> NDArray[np.bool_]:
    """Where an operator reads a parameter in the layout that the parameter has in use.

    A parameter of MindSpore has one layout for all its readers; `gradient` of its state holds it.
    """
    return _equal(source.gradient, target.forward)


def is_same(source: Port, target: Port) -> NDArray[np.bool_]:
    """Where a tensor is read in the layout that it has."""
    return _equal(source.forward, target.forward)


def _equal(sources: Sequence[Layout], targets: Sequence[Layout]) -> NDArray[np.bool_]:
    """Which pairs are alike, shape (len(sources), len(targets))."""
    number: dict[Layout, int] = {}
    own, other = (
        np.array([number.setdefault(x, len(number)) for x in side], dtype=np.intp)
        for side in (sources, targets)
    )
    return np.asarray(own[:, None] == other[None, :])


def edge_pricer(dialect: Dialect, mesh: Mesh, model: CollectiveModel) -> EdgePricer:
    """The pricer of a target's redistribution."""
    if dialect.partial_edges:
        return FreeEdges(Redistribution(model, mesh, dialect.max_waste, dialect.eager_sums))
    return MindsporeEdges(MindsporeRedistribution(model, mesh, dialect.all_to_all), model, mesh)
