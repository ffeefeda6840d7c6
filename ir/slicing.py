"""Which part of every tensor each rank keeps: the noun behind merging, splitting and moving."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Box: TypeAlias = tuple[tuple[int, int], ...]
"""First index and end of every dimension."""
Bounds: TypeAlias = NDArray[np.int64]


def whole_box(dims: Sequence[int]) -> Box:
    """The box of all indices."""
    return tuple((0, size) for size in dims)


def box_dims(box: Box) -> tuple[int, ...]:
    """Indices of every dimension.

    >>> box_dims(((2, 4), (0, 3)))
    (2, 3)
    """
    return tuple(end - first for first, end in box)


def common_box(one: Box, other: Box) -> Box | None:
    """What two boxes share; none where that is nothing."""
    shared = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return shared if all(first < end for first, end in shared) else None


def part_of(array: NDArray[Any], box: Box, outer: Box) -> NDArray[Any]:
    """The part of an array in a box; the array itself lies in the box `outer`. No copy is made."""
    pairs = zip(box, outer, strict=True)
    slices: list[Any] = [slice(first - base, end - base) for (first, end), (base, _) in pairs]
    return array[(*slices, ...)]


@dataclass(frozen=True, slots=True)
class Grid:
    """How consecutive ranks cut a tensor, whatever its dimensions measure."""

    sizes: tuple[int, ...]
    """Sizes of the axes of these ranks; the last varies fastest."""
    dims: tuple[tuple[int, ...], ...]
    """For each dimension of the tensor the axes that cut it, outermost first."""
    first_rank: int = 0
    """The first of these ranks: that of a pipeline stage, 0 without stages."""

    @property
    def ranks(self) -> range:
        return range(self.first_rank, self.first_rank + math.prod(self.sizes))

    @property
    def counts(self) -> tuple[int, ...]:
        """Pieces of every dimension."""
        return tuple(math.prod(self.sizes[a] for a in axes) for axes in self.dims)

    def pieces(self, rank: int) -> tuple[int, ...]:
        """Number of the piece of every dimension that a rank keeps."""
        place = np.unravel_index(rank - self.first_rank, self.sizes) if self.sizes else ()
        out = []
        for axes in self.dims:
            piece = 0
            for axis in axes:
                piece = piece * self.sizes[axis] + int(place[axis])
            out.append(piece)
        return tuple(out)

    def box(self, rank: int, dims: Sequence[int]) -> Box:
        """What a rank keeps. Pieces have one size; the last may be short, or empty."""
        out = []
        for size, count, piece in zip(dims, self.counts, self.pieces(rank), strict=True):
            length = -(-size // count)
            out.append((min(piece * length, size), min((piece + 1) * length, size)))
        return tuple(out)


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """The different parts of one tensor that ranks keep."""

    dims: tuple[int, ...]
    boxes: tuple[Box, ...]
    """Without repetition, in order of the first rank that keeps each."""
    ranks: tuple[tuple[int, ...], ...]
    """For each box the ranks that keep it, ascending."""
    bounds: Bounds = field(init=False, repr=False)
    """The boxes as an array, shape (boxes, dimensions, 2)."""

    def __post_init__(self) -> None:
        shape = (len(self.boxes), len(self.dims), 2)
        object.__setattr__(self, "bounds", np.array(self.boxes, np.int64).reshape(shape))

    def overlapping(self, box: Box) -> Iterator[tuple[int, Box]]:
        """The boxes that share something with another one: their index, and what is shared."""
        wanted = np.array(box, np.int64).reshape(len(box), 2)
        starts = np.maximum(self.bounds[:, :, 0], wanted[:, 0])
        ends = np.minimum(self.bounds[:, :, 1], wanted[:, 1])
        for index in np.flatnonzero((starts < ends).all(axis=1)).tolist():
            pairs = zip(starts[index].tolist(), ends[index].tolist(), strict=True)
            yield index, tuple(pairs)


def sliced(dims: tuple[int, ...], grids: Sequence[Grid]) -> Slices:
    """The parts of a tensor of these dims under the grids of all stages that keep it."""
    return _sliced(dims, tuple(grids))


@lru_cache(maxsize=1024)  # equal layers have equal tensors
def _sliced(dims: tuple[int, ...], grids: tuple[Grid, ...]) -> Slices:
    found: dict[Box, list[int]] = {}
    for grid in grids:
        for rank in grid.ranks:
            found.setdefault(grid.box(rank, dims), []).append(rank)
    return Slices(dims, tuple(found), tuple(tuple(sorted(ranks)) for ranks in found.values()))


def replicated_slices(dims: tuple[int, ...], ranks: Sequence[int]) -> Slices:
    """The whole tensor on each of these ranks."""
    return Slices(dims, (whole_box(dims),), (tuple(ranks),))


def chosen_slices(slices: Slices, chosen: Sequence[int]) -> Slices:
    """The parts where rank i keeps what rank `chosen[i]` kept."""
    boxes, ranks = [], []
    for box, owners in zip(slices.boxes, slices.ranks, strict=True):
        new = tuple(i for i, rank in enumerate(chosen) if rank in owners)
        if new:
            boxes.append(box)
            ranks.append(new)
    return Slices(slices.dims, tuple(boxes), tuple(ranks))


@dataclass(frozen=True, slots=True)
class Slicing:
    """How all tensors of a checkpoint lie on the ranks of a job."""

    origin: str
    """Where it was read, for errors."""
    ranks: int
    grids: Mapping[str, tuple[Grid, ...]]
    """By the name in the files; several where several pipeline stages keep a tensor."""
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Dims of whole tensors, where they are known."""
    dtypes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Element types, where they are known."""
    states: Mapping[str, tuple[Grid, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """How optimizer states lie, by their parameter, where that is not as the parameter (ZeRO 1
    and 2)."""

    def of_states(self) -> Slicing:
        """The same for optimizer states, each by the name of its parameter."""
        return replace(self, grids={**self.grids, **self.states}) if self.states else self


def whole_slicing(origin: str = "one file") -> Slicing:
    """Everything on one rank; tensors need not be named."""
    return Slicing(origin, 1, {})
