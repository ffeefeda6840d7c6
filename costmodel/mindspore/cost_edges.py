"""MindSpore's own cost of a redistribution, in its units: weighted bytes of slices.

Every move of a sequence is charged by the slice that the sequence starts from, and copies once
more than it says: both as MindSpore does it, so that its choices can be repeated.

Source: MindSpore 2.7.0, `frontend/parallel/tensor_layout/tensor_redistribution.cc`, ComputeCost;
`frontend/parallel/auto_parallel/edge_costmodel.cc`, GetRedistributionCost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from costmodel.mindspore.cost import FORBIDDEN, FloatArray, Weights, practical
from costmodel.mindspore.inference import (
    NOWHERE,
    Action,
    IntArray,
    Pairs,
    moves,
)
from costmodel.mindspore.pairs import Block, PairTable
from ir.layout import Layout
from topology.mesh import Mesh

GATHERED, SCATTERED = 0.5, 0.5
"""Bytes that a gather sends forward, for each device and byte of the slice; backward in all."""
EXCHANGED = 2.0
"""Bytes that an exchange sends, forward and backward alike, for each byte of the slice."""
COPIED = 2.0
"""Bytes that a copy touches, for each byte of the slice and device where there are several."""

Wanted: TypeAlias = tuple[Sequence[int], Sequence[Layout], Sequence[Layout]]
"""Dims of a tensor, layouts that it has, and layouts that are wanted."""


@dataclass(slots=True)
class MindsporeEdgeCost:
    """Costs between layouts on one mesh. Layouts here are never partial."""

    mesh: Mesh
    all_to_all: bool
    weights: Weights
    _tables: dict[int, PairTable[np.float64]] = field(default_factory=dict)
    """By the first dimension that is longer than 1."""

    def prepare(self, wanted: Iterable[Wanted]) -> None:
        """Work out at once what `pair_cost` is asked for later."""
        alike: dict[int, list[Block]] = {}
        for dims, sources, targets in wanted:
            alike.setdefault(_first(dims), []).append((sources, targets))
        for first, blocks in alike.items():
            self._table(first).prepare(blocks)

    def pair_cost(
        self,
        dims: Sequence[int],
        nbytes: float,
        sources: Sequence[Layout],
        targets: Sequence[Layout],
        *,
        boolean: bool = False,
    ) -> FloatArray:
        """Cost from each source to each target.

        Args:
            dims: of the whole tensor.
            nbytes: of the whole tensor.
            sources: layouts that it has.
            targets: layouts that are wanted.
            boolean: MindSpore has no collectives for such tensors.

        Returns:
            Shape (len(sources), len(targets)).
        """
        facts = self._table(_first(dims)).facts(sources, targets)
        computed, forward, backward = facts * nbytes
        if boolean:
            computed = np.where(forward > 0, FORBIDDEN, computed)
        sent = practical(forward, self.weights)
        if self.weights.training:
            sent = sent + practical(backward, self.weights)
        return np.asarray(self.weights.alpha * computed + self.weights.beta * sent)

    def _table(self, first: int) -> PairTable[np.float64]:
        if first not in self._tables:
            self._tables[first] = PairTable(self.mesh.sizes, partial(self._all, first))
        return self._tables[first]

    def _all(self, first: int, pairs: Pairs) -> FloatArray:
        """Computed, sent forward and sent backward, each for a byte of the whole tensor, shape
        (3, pairs); `first` is the first dimension that is longer than 1.
        """
        cuts = np.cumprod((1, *self.mesh.sizes))
        sizes = cuts[pairs.last + 1] // cuts[: len(cuts) - 1, None]
        share = 1.0 / np.where(pairs.held == NOWHERE, 1, sizes).prod(axis=0)
        reshaped = _is_reshaped(pairs, int(cuts[-1]))
        outermost = first * int(cuts[-1]) + 1
        out = np.zeros((3, pairs.held.shape[1]))
        place, moved = pairs.held.copy(), np.zeros(pairs.held.shape[1], dtype=bool)
        for move in moves(pairs.held, pairs.wanted, exchange=self.all_to_all):
            axis, at = move.axis, move.pairs
            count, moved[at] = sizes[axis, at].astype(np.float64), True
            copies = np.where(place[axis, at] == outermost, 1.0, 1.0 + COPIED * count)
            if move.action is Action.GATHER:
                out[:, at] += (copies + 1.0, GATHERED * count, np.full_like(count, SCATTERED))
            elif move.action is Action.EXCHANGE:
                sent = np.full_like(count, EXCHANGED)
                out[:, at] += (copies + 1.0, sent, sent)
            else:
                out[0, at] += 1.0
            gone = move.action is Action.GATHER
            place[axis, at] = NOWHERE if gone else pairs.wanted[axis, at]
        out[0] += np.where(moved & reshaped, COPIED, 0.0)
        return np.asarray(out * share)


def _first(dims: Sequence[int]) -> int:
    """The first dimension that is longer than 1."""
    return next((i for i, size in enumerate(dims) if size > 1), 0)


def _is_reshaped(pairs: Pairs, every: int) -> IntArray:
    """Whether the tensor is given more dimensions first, as an axis begins inside one."""
    inside = [(p != NOWHERE) & (p % every > 1) for p in (pairs.held, pairs.wanted)]
    return np.asarray(inside[0].any(axis=0) | inside[1].any(axis=0))
