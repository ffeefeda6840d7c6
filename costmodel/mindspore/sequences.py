"""Sequences of messages with which MindSpore takes a tensor from one layout to another.

They follow from the sizes of the mesh alone, whatever its links are: searches on machines that
differ in these share them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective
from costmodel.mindspore.inference import (
    NOWHERE,
    Action,
    IntArray,
    Pairs,
    layout_of,
    moves,
    paired,
    placed,
)
from costmodel.mindspore.pairs import Block, PairTable
from ir.layout import Layout

KINDS = (Collective.ALL_GATHER, Collective.ALL_TO_ALL)
SHARED_MESHES = 4
"""Meshes whose sequences are kept for later searches."""

Scaled: TypeAlias = tuple[Collective | None, tuple[int, ...], float, Layout]
"""Kind, mesh axes, bytes as a share of the whole tensor, and the layout after it."""


@lru_cache(maxsize=SHARED_MESHES)
def sequences_on(sizes: tuple[int, ...], exchange: bool) -> Sequences:
    """The sequences on a mesh.

    Args:
        sizes: of its axes.
        exchange: whether all-to-all is used.
    """
    return Sequences(sizes, exchange)


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """What sequences are made of."""

    groups: tuple[tuple[Collective, tuple[int, ...]], ...]
    """Distinct collectives over mesh axes."""
    rows: IntArray
    """Group of each distinct message, shape (distinct,)."""
    share: NDArray[np.float64]
    """Its bytes as a share of the whole tensor, shape (distinct,)."""
    of_sequence: IntArray
    """Distinct messages of each sequence, shape (sequences, messages); -1 behind the last."""


@dataclass(slots=True)
class Sequences:
    """Distinct sequences of messages: few of them serve all pairs of layouts.

    A message is told by its collective, by the first and the last mesh axis of its group, and by
    the pieces of which it is one.
    """

    sizes: tuple[int, ...]
    exchange: bool
    _number: dict[tuple[int, ...], int] = field(default_factory=dict)
    _messages: Messages | None = None
    _table: PairTable[np.int64] = field(init=False)
    _scaled: dict[tuple[Layout, Layout], tuple[Scaled, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._table = PairTable(self.sizes, self._sent)

    def prepare(self, blocks: Iterable[Block]) -> None:
        """Work out at once what `of_pairs` is asked for later."""
        self._table.prepare(blocks)

    def of_pairs(self, sources: Sequence[Layout], targets: Sequence[Layout]) -> IntArray:
        """Number of the sequence of each pair, shape (len(sources), len(targets))."""
        found: IntArray = self._table.facts(sources, targets)[0]
        return found

    def between(self, source: Layout, target: Layout) -> tuple[Scaled, ...]:
        """The messages and slices of one pair, in order."""
        if (source, target) not in self._scaled:
            self._scaled[source, target] = tuple(self._inferred(source, target))
        return self._scaled[source, target]

    def messages(self) -> Messages:
        """The messages of all sequences that are known by now."""
        if self._messages is None or len(self._messages.of_sequence) != len(self._number):
            self._messages = self._listed()
        return self._messages

    def _listed(self) -> Messages:
        known = list(self._number)
        number: dict[int, int] = {}
        of = np.full((len(known), max(map(len, known), default=0)), -1, dtype=np.intp)
        for row, sequence in enumerate(known):
            of[row, : len(sequence)] = [number.setdefault(c, len(number)) for c in sequence]
        axes, every = len(self.sizes), math.prod(self.sizes)
        groups: dict[tuple[Collective, tuple[int, ...]], int] = {}
        rows, share = [], []
        for code in number:
            group, pieces = divmod(code - 1, every)
            kind, ends = divmod(group, axes * axes)
            on = (KINDS[kind], _run(*divmod(ends, axes)))
            rows.append(groups.setdefault(on, len(groups)))
            share.append(1.0 / (pieces + 1))
        return Messages(tuple(groups), np.array(rows, dtype=np.intp), np.array(share), of)

    def _sent(self, pairs: Pairs) -> IntArray:
        """The sequence of messages of each pair, shape (1, pairs)."""
        axes, every = len(self.sizes), math.prod(self.sizes)
        count = np.zeros(pairs.held.shape[1], dtype=np.intp)
        codes = np.zeros((1, len(count)), dtype=np.int64)
        for kind, axis, pieces, at in self._collectives(pairs):
            if kind is None:
                continue
            own = count[at]
            while own.max() >= len(codes):
                codes = np.concatenate((codes, np.zeros_like(codes)))
            group = KINDS.index(kind) * axes + axis
            codes[own, at] = (group * axes + pairs.last[axis, at]) * every + pieces
            count[at] = own + 1
        return self._numbered(codes)[None]

    def _collectives(
        self, pairs: Pairs
    ) -> Iterator[tuple[Collective | None, int, IntArray, IntArray]]:
        """Kind, first axis, and for the pairs concerned: the pieces of the whole tensor of which
        the message is one, and which pairs these are.

        The bytes are those of the local tensor in an all-to-all, of the result in an all-gather
        and in a slice.
        """
        cuts = np.cumprod((1, *self.sizes))
        sizes = cuts[pairs.last + 1] // cuts[: len(cuts) - 1, None]
        pieces = np.where(pairs.held == NOWHERE, 1, sizes).prod(axis=0)
        for move in moves(pairs.held, pairs.wanted, exchange=self.exchange):
            concerned, size = move.pairs, sizes[move.axis, move.pairs]
            if move.action is Action.SLICE:
                pieces[concerned] *= size
                yield None, move.axis, pieces[concerned], concerned
            elif move.action is Action.GATHER:
                pieces[concerned] //= size
                yield Collective.ALL_GATHER, move.axis, pieces[concerned], concerned
            else:
                yield Collective.ALL_TO_ALL, move.axis, pieces[concerned], concerned

    def _numbered(self, codes: IntArray) -> IntArray:
        """Numbers of sequences, shape (pairs,), from their messages, shape (messages, pairs)."""
        packed = _packed(codes)
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        own = [
            self._number.setdefault(tuple(c for c in column if c), len(self._number))
            for column in codes[:, first].T.tolist()
        ]
        return np.array(own, dtype=np.int64)[inverse.ravel()]

    def _inferred(self, source: Layout, target: Layout) -> Iterator[Scaled]:
        both = placed([source, target], self.sizes)
        pairs = paired(both, np.array([0]), np.array([1]))
        last = pairs.last[:, 0]
        for kind, axis, pieces, _ in self._collectives(pairs):
            reached = layout_of(pairs.held[:, 0], last, len(source.dims), self.sizes)
            yield kind, _run(axis, int(last[axis])), 1.0 / int(pieces[0]), reached


def _packed(codes: IntArray) -> IntArray:
    """One number for each column of non-negative numbers, equal for equal columns."""
    out = np.zeros(codes.shape[1], dtype=np.int64)
    for row in codes:
        radix = int(row.max(initial=0)) + 1
        if int(out.max(initial=0)) >= np.iinfo(np.int64).max // radix - 1:
            out = np.unique(out, return_inverse=True)[1].ravel()
        out = out * radix + row
    return out


def _run(first: int, last: int) -> tuple[int, ...]:
    """The axes from the first to the last."""
    return tuple(range(first, last + 1))
