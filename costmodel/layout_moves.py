"""Layouts of a tensor on a mesh, and the moves from one to another.

States are all layouts of a rank on a mesh: ordered axes for every dimension, and a set of
partial axes. Moves are slice, all-to-all, all-gather, all-reduce and reduce-scatter over axes of
one tier or several, and the free step from whole to partial (one device of the group keeps the
value, the others hold zero).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective
from ir.layout import Layout
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Move:
    """From one layout of a space to another, by their numbers."""

    source: int
    target: int
    kind: Collective | None
    axes: tuple[int, ...]
    factor: float
    """Bytes of the collective over the local bytes of the source; of a reduce-scatter over those of
    the target, whose pieces are all as long as the longest.
    """


def held_by(move: Move) -> int:
    """The layout whose local bytes the bytes of a move are counted in."""
    return move.target if move.kind is Collective.REDUCE_SCATTER else move.source


def bytes_of(move: Move, local: FloatArray) -> float:
    """Bytes of a move, for the local bytes of every layout."""
    return float(local[held_by(move)] * move.factor)


def all_layouts(rank: int, axes: int) -> tuple[Layout, ...]:
    """Every layout of a rank: each axis splits a dimension (in every order), is partial, or does
    nothing.
    """
    found: list[Layout] = []
    for places in itertools.product(range(-2, rank), repeat=axes):
        dims = [[a for a in range(axes) if places[a] == d] for d in range(rank)]
        partial = tuple(a for a in range(axes) if places[a] == -2)
        orders = itertools.product(*[list(itertools.permutations(d)) for d in dims])
        found += [Layout(tuple(order), partial) for order in orders]
    return tuple(found)


class StateSpace:
    """Layouts of one rank on one mesh, and the moves between them."""

    def __init__(self, rank: int, mesh: Mesh, *, eager_sums: bool = False) -> None:
        self.mesh, self.eager_sums = mesh, eager_sums
        self.layouts = all_layouts(rank, len(mesh.axes))
        self.index = {layout: i for i, layout in enumerate(self.layouts)}
        self.moves = tuple(self._moves())
        self.shards = np.array(
            [layout.shards(mesh.sizes) for layout in self.layouts], dtype=np.int64
        ).reshape(len(self.layouts), rank)

    def _moves(self) -> Iterator[Move]:
        for index, layout in enumerate(self.layouts):
            for kind, axes, factor, result in self._from(layout):
                yield Move(index, self.index[result], kind, axes, factor)

    def _from(
        self, layout: Layout
    ) -> Iterator[tuple[Collective | None, tuple[int, ...], float, Layout]]:
        if self.eager_sums and layout.partial:
            yield from self._reductions(layout)
            return
        used = {*layout.split_axes, *layout.partial}
        for axis in (a for a in range(len(self.mesh.axes)) if a not in used):
            for dim in range(len(layout.dims)):
                yield None, (axis,), 0.0, _append(layout, dim, (axis,))
            if not self.eager_sums:
                terms = tuple(sorted((*layout.partial, axis)))
                yield None, (axis,), 0.0, Layout(layout.dims, terms)
        yield from self._gathers(layout)
        yield from self._reductions(layout)

    def _gathers(
        self, layout: Layout
    ) -> Iterator[tuple[Collective | None, tuple[int, ...], float, Layout]]:
        for dim, held in enumerate(layout.dims):
            for count in range(1, len(held) + 1):
                suffix = held[-count:]
                rest = _replace(layout, dim, held[:-count])
                terms = tuple(sorted((*rest.partial, *suffix)))
                if not self.eager_sums:
                    # A slice amid zeros is a term of a sum.
                    yield None, suffix, 0.0, Layout(rest.dims, terms)
                size = math.prod(self.mesh.sizes[a] for a in suffix)
                yield Collective.ALL_GATHER, suffix, float(size), rest
                for other in range(len(layout.dims)):
                    if other != dim:
                        yield Collective.ALL_TO_ALL, suffix, 1.0, _append(rest, other, suffix)

    def _reductions(
        self, layout: Layout
    ) -> Iterator[tuple[Collective | None, tuple[int, ...], float, Layout]]:
        for count in range(1, len(layout.partial) + 1):
            for axes in itertools.combinations(layout.partial, count):
                whole = Layout(layout.dims, tuple(a for a in layout.partial if a not in axes))
                yield Collective.ALL_REDUCE, axes, 1.0, whole
                for dim in range(len(layout.dims)):
                    size = float(math.prod(self.mesh.sizes[a] for a in axes))
                    yield Collective.REDUCE_SCATTER, axes, size, _append(whole, dim, axes)

    def with_fewer_terms(self, layout: Layout) -> list[int]:
        """Numbers of the layouts that are partial over some of the axes only, the layout itself
        first. One device of a group keeps what it has and the others take zero: they become it for
        nothing.
        """
        subsets = (
            axes
            for count in range(len(layout.partial), -1, -1)
            for axes in itertools.combinations(layout.partial, count)
        )
        return [self.index[Layout(layout.dims, axes)] for axes in subsets]


def _replace(layout: Layout, dim: int, axes: tuple[int, ...]) -> Layout:
    return Layout((*layout.dims[:dim], axes, *layout.dims[dim + 1 :]), layout.partial)


def _append(layout: Layout, dim: int, axes: tuple[int, ...]) -> Layout:
    return _replace(layout, dim, (*layout.dims[dim], *axes))
