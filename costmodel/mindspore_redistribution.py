"""What MindSpore's own redistribution between two layouts of a tensor costs.

The gradient travels back through the same operators: an all-to-all stays one, an all-gather becomes
a reduce-scatter of the same bytes, a slice costs nothing.
Source: docs/costmodel.md, section Redistribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, CollectiveModel, CurveTable
from costmodel.mindspore_inference import (
    NOWHERE,
    Action,
    IntArray,
    Pairs,
    layout_of,
    moves,
    paired,
    placed,
)
from costmodel.mindspore_pairs import Block, PairTable
from costmodel.redistribution import Shardable, Step
from ir.dtypes import dtype_bytes
from ir.layout import Layout
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]
_Scaled: TypeAlias = tuple[Collective | None, tuple[int, ...], float, Layout]
"""Kind, mesh axes, bytes as a share of the whole tensor, and the layout after it."""


_KINDS = (Collective.ALL_GATHER, Collective.ALL_TO_ALL)


@dataclass(slots=True)
class _Sequences:
    """Distinct sequences of messages: few of them serve all pairs of layouts.

    A message is told by its collective, by the first and the last mesh axis of its group, and by
    the pieces of which it is one.
    """

    model: CollectiveModel
    _number: dict[tuple[int, ...], int] = field(default_factory=dict)
    _priced: tuple[_Curves, dict[tuple[float, float], FloatArray]] | None = None

    def numbered(self, codes: IntArray) -> IntArray:
        """Numbers of sequences, shape (pairs,), from their messages, shape (messages, pairs)."""
        packed = _packed(codes)
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        own = [
            self._number.setdefault(tuple(c for c in column if c), len(self._number))
            for column in codes[:, first].T.tolist()
        ]
        return np.array(own, dtype=np.int64)[inverse.ravel()]

    def time_s(self, nbytes: float, latency_scale: float) -> FloatArray:
        """Seconds of every sequence for a tensor of so many bytes, shape (sequences,)."""
        if self._priced is None or len(self._priced[0].messages) != len(self._number):
            self._priced = (_curves(self.model, list(self._number)), {})
        curves, known = self._priced
        key = (nbytes, latency_scale)
        if key not in known:
            each = curves.table.time_s(curves.rows, curves.share * nbytes, latency_scale)
            found = np.zeros(len(curves.messages))
            for column in curves.messages.T:
                found += np.where(column < 0, 0.0, each[column])
            known[key] = found
        return known[key]


@dataclass(frozen=True, slots=True, eq=False)
class _Curves:
    """The messages of some sequences, to price them at any number of bytes."""

    table: CurveTable
    rows: IntArray
    """Row of the curve of each distinct message, shape (distinct,)."""
    share: FloatArray
    """Its bytes as a share of the whole tensor, shape (distinct,)."""
    messages: IntArray
    """Distinct messages of each sequence, shape (sequences, messages); -1 behind the last."""


def _curves(model: CollectiveModel, sequences: Sequence[tuple[int, ...]]) -> _Curves:
    axes, every = len(model.mesh.axes), model.mesh.size
    number: dict[int, int] = {}
    messages = np.full((len(sequences), max(map(len, sequences), default=0)), -1, dtype=np.intp)
    for row, sequence in enumerate(sequences):
        messages[row, : len(sequence)] = [number.setdefault(c, len(number)) for c in sequence]
    curves: dict[tuple[int, int, int], int] = {}
    rows, share = [], []
    for code in number:
        group, pieces = divmod(code - 1, every)
        kind, ends = divmod(group, axes * axes)
        rows.append(curves.setdefault((kind, *divmod(ends, axes)), len(curves)))
        share.append(1.0 / (pieces + 1))
    table = model.table((_KINDS[kind], _run(first, last)) for kind, first, last in curves)
    return _Curves(table, np.array(rows, dtype=np.intp), np.array(share), messages)


def _packed(codes: IntArray) -> IntArray:
    """One number for each column of non-negative numbers, equal for equal columns."""
    out = np.zeros(codes.shape[1], dtype=np.int64)
    for row in codes:
        radix = int(row.max(initial=0)) + 1
        if int(out.max(initial=0)) >= np.iinfo(np.int64).max // radix - 1:
            out = np.unique(out, return_inverse=True)[1].ravel()
        out = out * radix + row
    return out


@dataclass(slots=True)
class MindsporeRedistribution:
    """Times of redistribution as MindSpore carries it out. Layouts here are never partial."""

    model: CollectiveModel
    mesh: Mesh
    all_to_all: bool
    _table: PairTable[np.int64] = field(init=False)
    _all_sequences: _Sequences = field(init=False)
    _sequences: dict[tuple[Layout, Layout], tuple[_Scaled, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._all_sequences = _Sequences(self.model)
        self._table = PairTable(self.mesh.sizes, self._sent)

    def prepare(self, blocks: Iterable[Block]) -> None:
        """Work out at once what `pair_time_s` is asked for later."""
        self._table.prepare(blocks)

    def pair_time_s(
        self, tensor: Shardable, sources: Sequence[Layout], targets: Sequence[Layout]
    ) -> FloatArray:
        """Seconds from each source to each target, forward, shape (len(sources), len(targets))."""
        sequences = self._table.facts(sources, targets)[0]
        nbytes = math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        return np.asarray(self._all_sequences.time_s(nbytes, tensor.latency_scale)[sequences])

    def _sent(self, pairs: Pairs) -> IntArray:
        """The sequence of messages of each pair, shape (1, pairs)."""
        axes, every = len(self.mesh.axes), self.mesh.size
        count = np.zeros(pairs.held.shape[1], dtype=np.intp)
        codes = np.zeros((1, len(count)), dtype=np.int64)
        for kind, axis, pieces, at in self._collectives(pairs):
            if kind is None:
                continue
            own = count[at]
            while own.max() >= len(codes):
                codes = np.concatenate((codes, np.zeros_like(codes)))
            group = _KINDS.index(kind) * axes + axis
            codes[own, at] = (group * axes + pairs.last[axis, at]) * every + pieces
            count[at] = own + 1
        return self._all_sequences.numbered(codes)[None]

    def _collectives(
        self, pairs: Pairs
    ) -> Iterator[tuple[Collective | None, int, IntArray, IntArray]]:
        """Kind, first axis, and for the pairs concerned: the pieces of the whole tensor of which
        the message is one, and which pairs these are.

        The bytes are those of the local tensor in an all-to-all, of the result in an all-gather
        and in a slice.
        """
        cuts = np.cumprod((1, *self.mesh.sizes))
        sizes = cuts[pairs.last + 1] // cuts[: len(cuts) - 1, None]
        pieces = np.where(pairs.held == NOWHERE, 1, sizes).prod(axis=0)
        for move in moves(pairs.held, pairs.wanted, exchange=self.all_to_all):
            concerned, size = move.pairs, sizes[move.axis, move.pairs]
            if move.action is Action.SLICE:
                pieces[concerned] *= size
                yield None, move.axis, pieces[concerned], concerned
            elif move.action is Action.GATHER:
                pieces[concerned] //= size
                yield Collective.ALL_GATHER, move.axis, pieces[concerned], concerned
            else:
                yield Collective.ALL_TO_ALL, move.axis, pieces[concerned], concerned

    def steps(self, tensor: Shardable, source: Layout, target: Layout) -> tuple[Step, ...]:
        """The moves, in order."""
        elements = math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        return tuple(
            Step(
                kind,
                axes,
                share * elements,
                float(self.model.time_s(kind, share * elements, axes, tensor.latency_scale))
                if kind
                else 0.0,
                reached,
            )
            for kind, axes, share, reached in self._sequence(source, target)
        )

    def _sequence(self, source: Layout, target: Layout) -> tuple[_Scaled, ...]:
        if (source, target) not in self._sequences:
            self._sequences[source, target] = tuple(self._inferred(source, target))
        return self._sequences[source, target]

    def _inferred(self, source: Layout, target: Layout) -> Iterator[_Scaled]:
        both = placed([source, target], self.mesh.sizes)
        pairs = paired(both, np.array([0]), np.array([1]))
        last = pairs.last[:, 0]
        for kind, axis, pieces, _ in self._collectives(pairs):
            reached = layout_of(pairs.held[:, 0], last, len(source.dims), self.mesh.sizes)
            yield kind, _run(axis, int(last[axis])), 1.0 / int(pieces[0]), reached


def _run(first: int, last: int) -> tuple[int, ...]:
    """The axes from the first to the last."""
    return tuple(range(first, last + 1))
