"""Layouts whose dimensions are cut by several axes, as the JSON form of a strategy holds them.

There every axis has a dimension of its own: 1024 cut by axes of 2 and 4 stands as 2 x 512. Which of
them are one dimension of the tensor shows in the dims that the tensor has: all but the last of a
dimension are as long as they are cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from executors.checkpoint.errors import CheckpointError
from ir.slicing import Grid, Slicing

Fitted: TypeAlias = tuple[tuple[int, ...] | None, tuple[Grid, ...]]
"""Dims of the whole tensor, if the layout knows them, and its grids."""
_Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""For each dimension of a tensor those of the file that make it."""


def fitted(slicing: Slicing, name: str, dims: Sequence[int], *, slices: bool) -> Fitted:
    """How a tensor lies, in its own dimensions.

    Args:
        slicing: the layouts of a file.
        name: of a tensor in it.
        dims: of the whole tensor, or of a slice of it.
        slices: whether `dims` are those of a slice.

    Raises:
        CheckpointError: the dimensions may belong together in more than one way.
    """
    shape, grids = slicing.dims.get(name), slicing.grids[name]
    if shape is None or len(dims) >= len(shape) or any(len(g.dims) != len(shape) for g in grids):
        return shape, grids
    found = {_joined(shape, grids, groups) for groups in _groupings(shape, grids[0], dims, slices)}
    if len(found) > 1:
        what = f"which dimensions of {name!r} belong together is not to be seen"
        fix = "pass the strategy file in its other form, .ckpt, which says it"
        raise CheckpointError(what, f"layout of {slicing.origin}", fix)
    return found.pop() if found else (shape, grids)


def _groupings(
    shape: tuple[int, ...], grid: Grid, dims: Sequence[int], slices: bool
) -> Iterator[_Groups]:
    cuts = [_own(size, axes, grid) for size, axes in zip(shape, grid.dims, strict=True)]
    counts = grid.counts if slices else (1,) * len(shape)

    def from_here(begin: int, dim: int) -> Iterator[_Groups]:
        if dim == len(dims):
            if begin == len(shape):
                yield ()
            return
        size = 1
        for end in range(begin, len(shape)):
            size *= shape[end]
            share = math.prod(counts[begin : end + 1])
            if size == dims[dim] * share:
                for rest in from_here(end + 1, dim + 1):
                    yield (tuple(range(begin, end + 1)), *rest)
            if shape[end] != cuts[end]:
                return

    return from_here(0, 0)


def _own(size: int, axes: tuple[int, ...], grid: Grid) -> int:
    """Ways that the file cuts a dimension, without the optimizer's share of it."""
    return grid.sizes[axes[0]] if axes and size > 1 else 1


def _joined(shape: tuple[int, ...], grids: tuple[Grid, ...], groups: _Groups) -> Fitted:
    """The optimizer's share, which stands behind the first axis of all, cuts last."""
    whole = tuple(math.prod(shape[index] for index in group) for group in groups)
    out = []
    for grid in grids:
        dims = []
        for group in groups:
            first, *rest = (grid.dims[index] for index in group)
            inner = tuple(axis for axes in rest for axis in axes)
            own = min(shape[group[0]] - 1, 1)
            dims.append((*first[:own], *inner, *first[own:]))
        out.append(replace(grid, dims=tuple(dims)))
    return whole, tuple(out)
