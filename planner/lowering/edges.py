"""Prices of edges: redistribution forward and of the gradient back, and the memory of copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives.buckets import bucket_share
from costmodel.redistribution import Shardable, Step
from ir.graph import Tensor
from ir.layout import Layout
from ir.plan_enums import Cause
from planner.candidates.layout_tables import (
    LayoutPair,
    Layouts,
    LayoutTable,
)
from planner.lowering.overlap import Messages

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


def in_order(steps: Sequence[Step], source: Layout, cause: str) -> tuple[Transfer, ...]:
    """Steps in order, each with the layout that it starts from."""
    out: list[Transfer] = []
    for step in steps:
        out.append(Transfer(step, cause, source, step.result))
        source = step.result
    return tuple(out)


class EdgePricer(Protocol):
    """Prices one mesh for one target."""

    def steady(self) -> Self:
        """The same without what happens once in a step."""
        ...

    def at_rest(self) -> Self:
        """Prices of what is sent once in a step; what ZeRO 1 and 2 send lies in flat buffers."""
        ...

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


def forward_cause(kind: EdgeKind) -> str:
    """What a message of the forward pass is for."""
    return Cause.PARAMETER_GATHER if kind.parameter else Cause.FORWARD


def backward_cause(kind: EdgeKind) -> str:
    """What a message of the backward pass is for."""
    return Cause.GRADIENT_SYNC if kind.parameter else Cause.ACTIVATION_GRADIENT


def tier_stack(time_s: FloatArray, tiers_s: FloatArray) -> FloatArray:
    """All messages, then those of each tier, shape (1 + tiers, S, T)."""
    return np.concatenate([time_s[None], tiers_s])


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
