"""Communication inside operators: what each candidate sends, and how long that takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, CollectiveModel, CurveTable
from ir.dtypes import dtype_bytes
from ir.graph import Tensor
from ir.rule import FactorMap, ShardingRule, edge_elements
from planner.candidates.assignments import Assignments, Groups, IntArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class InternalCollective:
    """Communication inside an operator, for the report: one message of one candidate."""

    kind: Collective
    axes: tuple[int, ...]
    nbytes: float
    forward: int
    backward: int
    time_s: float
    """All of its messages."""


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One message inside an operator, for all candidates."""

    groups: Groups
    """Devices that take part; candidates without any axis send nothing."""
    nbytes: FloatArray
    """Shape (C,)."""
    forward: int
    """How often it is sent forward."""
    backward: int
    once_s: FloatArray
    """Seconds of one, shape (C,); 0 where nothing is sent."""
    kind: Collective = Collective.ALL_REDUCE

    def of(self, candidate: int) -> InternalCollective | None:
        """What one candidate sends."""
        axes = self.groups.axes[self.groups.of[candidate]]
        if not axes:
            return None
        return InternalCollective(
            self.kind,
            axes,
            float(self.nbytes[candidate]),
            self.forward,
            self.backward,
            float(self.once_s[candidate]) * (self.forward + self.backward),
        )


class InternalCollectives(Sequence[tuple[InternalCollective, ...]]):
    """Messages by candidate, each told when it is asked for."""

    def __init__(self, count: int, messages: Sequence[Message]) -> None:
        self._count, self._messages = count, messages

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> tuple[InternalCollective, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[InternalCollective, ...], ...]: ...

    def __getitem__(
        self, index: int | slice
    ) -> tuple[InternalCollective, ...] | tuple[tuple[InternalCollective, ...], ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._count)))
        if not -self._count <= index < self._count:
            raise IndexError(index)
        found = (message.of(index) for message in self._messages)
        return tuple(each for each in found if each is not None)

    def time_s(self) -> FloatArray:
        """Seconds of all messages, shape (C,)."""
        out = np.zeros(self._count)
        for message in self._messages:
            out += message.once_s * (message.forward + message.backward)
        return out


@dataclass(slots=True)
class InternalPricer:
    """Finds the messages of operators."""

    collectives: CollectiveModel
    partial_edges: bool
    """Sums may stay partial behind an operator; otherwise they are completed inside."""
    _curves: dict[tuple[Collective, Groups], CurveTable] = field(default_factory=dict)
    """Of the axes of each group; without axes nothing is sent."""

    def messages(
        self,
        rule: ShardingRule,
        splits: Assignments,
        outputs: Sequence[Tensor],
        summed: Sequence[frozenset[int]],
        *,
        gradient: Sequence[bool],
    ) -> InternalCollectives:
        """Messages of all candidates of an operator.

        Args:
            rule: of the operator.
            splits: its candidates.
            outputs: its results.
            summed: for each result the factors that are summed away.
            gradient: for every operand whether its gradient is wanted.
        """
        backward = any(gradient)
        found = [*self._internal(rule, splits, backward=backward)]
        if any(w.factor in splits.choices for w in rule.windows):
            found += self._edges(rule, splits, gradient)
        if not self.partial_edges:
            found += self._sums(rule, splits, outputs, summed, backward=backward)
        return InternalCollectives(len(splits), found)

    def _internal(
        self, rule: ShardingRule, splits: Assignments, *, backward: bool
    ) -> Iterator[Message]:
        for item in rule.internal:
            groups = splits.groups(frozenset(item.factors))
            if any(groups.axes):
                sizes = [-(-rule.sizes[f] // splits.counts((f,))) for f in item.message]
                elements = _product(sizes, splits)
                # MindSpore repeats a forward all-reduce backward (docs/decisions/0007).
                repeated = 0 if self.partial_edges else item.forward
                back = max(item.backward, repeated) if backward else 0
                yield self._message(groups, elements * item.bytes_per_element, item.forward, back)

    def _edges(
        self, rule: ShardingRule, splits: Assignments, gradient: Sequence[bool]
    ) -> Iterator[Message]:
        """What neighbours send each other where positions are cut; its gradient goes back."""
        factors = {f for w in rule.windows for dim in w.mapping for f in dim}
        pieces = {f: splits.counts((f,)).tolist() for f in factors}
        rows = [
            edge_elements(rule.windows, rule.sizes, {f: own[i] for f, own in pieces.items()})
            for i in range(len(splits))
        ]
        for number, window in enumerate(rule.windows):
            groups = splits.groups(frozenset((window.factor,)))
            elements = np.array([row[number] for row in rows], dtype=np.float64)
            if elements.any():
                nbytes = elements * window.bytes_per_element
                back = int(gradient[window.operand])
                yield self._message(groups, nbytes, 1, back, Collective.POINT_TO_POINT)

    def _sums(
        self,
        rule: ShardingRule,
        splits: Assignments,
        outputs: Sequence[Tensor],
        summed: Sequence[frozenset[int]],
        *,
        backward: bool,
    ) -> Iterator[Message]:
        for mapping, terms, tensor in zip(rule.results, summed, outputs, strict=False):
            groups = splits.groups(terms)
            if any(groups.axes) and mapping is not None:
                nbytes = _local_elements(mapping, splits, tensor) * dtype_bytes(tensor.dtype)
                yield self._message(groups, nbytes, 1, int(backward))

    def _message(
        self,
        groups: Groups,
        nbytes: FloatArray,
        forward: int,
        backward: int,
        kind: Collective = Collective.ALL_REDUCE,
    ) -> Message:
        if (kind, groups) not in self._curves:
            kinds = [(kind, axes) for axes in groups.axes]
            self._curves[kind, groups] = self.collectives.table(kinds)
        once_s = self._curves[kind, groups].time_s(groups.of, nbytes)
        return Message(groups, nbytes, forward, backward, once_s, kind)


def _local_elements(mapping: FactorMap, splits: Assignments, tensor: Tensor) -> FloatArray:
    """Elements of the largest shard of a result, shape (C,)."""
    counts = (splits.counts(f) for f in mapping)
    return _product([-(-d // n) for d, n in zip(tensor.dims, counts, strict=True)], splits)


def _product(sizes: Sequence[IntArray], splits: Assignments) -> FloatArray:
    """Of sizes of shape (C,)."""
    out = np.ones(len(splits))
    for size in sizes:
        out *= size
    return out
