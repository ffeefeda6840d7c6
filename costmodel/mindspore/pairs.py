"""Facts of pairs of layouts, found for many pairs at once.

Few layouts make many pairs, and what MindSpore infers between two of them is the same for every
tensor. So layouts are numbered, and a pair is worked out once, together with all
others that are wanted by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.mindspore.inference import IntArray, Pairs, paired, placed
from ir.layout import Layout

Number = TypeVar("Number", np.float64, np.int64)
Block: TypeAlias = tuple[Sequence[Layout], Sequence[Layout]]
"""Sources and targets, of which all pairs are wanted."""

MAX_PAIRS = 1 << 17
"""Pairs that are worked out together, at most."""


@dataclass(slots=True)
class PairTable(Generic[Number]):
    """Facts of pairs on one mesh."""

    sizes: tuple[int, ...]
    """Of the mesh axes."""
    find: Callable[[Pairs], NDArray[Number]]
    """Facts of some pairs, shape (facts, pairs)."""
    _number: dict[Layout, int] = field(default_factory=dict)
    _numbers: dict[tuple[Layout, ...], IntArray] = field(default_factory=dict)
    _blocks: set[tuple[tuple[Layout, ...], tuple[Layout, ...]]] = field(default_factory=set)
    _known: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    _facts: NDArray[Number] | None = None

    def facts(self, sources: Sequence[Layout], targets: Sequence[Layout]) -> NDArray[Number]:
        """Facts of all pairs of a block, shape (facts, sources, targets)."""
        block = (_as_tuple(sources), _as_tuple(targets))
        if block not in self._blocks:
            self.prepare([block])
        assert self._facts is not None
        return self._facts[:, self._numbers[block[0]][:, None], self._numbers[block[1]]]

    def prepare(self, blocks: Iterable[Block]) -> None:
        """Work out the pairs of blocks that are asked for later, all at once."""
        fresh = {(_as_tuple(rows), _as_tuple(columns)): None for rows, columns in blocks}
        numbered = [
            (self._numbered(rows), self._numbered(columns))
            for rows, columns in fresh
            if (rows, columns) not in self._blocks
        ]
        self._blocks.update(fresh)
        count = len(self._number)
        wanted = np.zeros((count, count), dtype=bool)
        for rows, columns in numbered:
            wanted[rows[:, None], columns] = True
        before = len(self._known)
        wanted[:before, :before] &= ~self._known
        sources, targets = np.nonzero(wanted)
        layouts = placed(list(self._number), self.sizes)
        for start in range(0, len(sources), MAX_PAIRS):
            part = slice(start, start + MAX_PAIRS)
            found = self.find(paired(layouts, sources[part], targets[part]))
            self._grown(found, count)[:, sources[part], targets[part]] = found
        wanted[:before, :before] |= self._known
        self._known = wanted

    def _grown(self, like: NDArray[Number], count: int) -> NDArray[Number]:
        """The facts, with room for all layouts."""
        old = self._facts
        if old is None or old.shape[1] < count:
            self._facts = np.zeros((len(like), count, count), dtype=like.dtype)
            if old is not None:
                self._facts[:, : old.shape[1], : old.shape[2]] = old
        assert self._facts is not None
        return self._facts

    def _numbered(self, layouts: tuple[Layout, ...]) -> IntArray:
        if layouts not in self._numbers:
            number = self._number
            found = [number.setdefault(layout, len(number)) for layout in layouts]
            self._numbers[layouts] = np.array(found, dtype=np.intp)
        return self._numbers[layouts]


def _as_tuple(layouts: Sequence[Layout]) -> tuple[Layout, ...]:
    """As a key; a tuple is taken as it is, for it may know its hash."""
    return layouts if isinstance(layouts, tuple) else tuple(layouts)
