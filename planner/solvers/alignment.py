"""Tables over different dimensions brought together: into one order, added into wider ones.

How that goes follows from their dimensions alone, which many buckets share, so it is found once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from planner.problem import FloatArray

KEPT = 4096
"""Ways to bring tables together that are kept for those of equal dimensions."""
Table = tuple[tuple[int, ...], FloatArray]
"""Positions, ascending, and an array with one dimension for each."""


def align(axes: tuple[int, ...], array: FloatArray) -> Table:
    """Bring the dimensions of a table into ascending order of their positions.

    Dimensions of one entry go, but for that of position 0.
    """
    order, positions, dims = _alignment(axes, array.shape)
    if order is not None:
        array = np.ascontiguousarray(array.transpose(order))
    return positions, array if dims is None else array.reshape(dims)


@lru_cache(maxsize=KEPT)
def _alignment(
    axes: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[tuple[int, ...] | None, tuple[int, ...], tuple[int, ...] | None]:
    """The order of the dimensions, where that is another, the positions that stay, and the dims,
    where some go.
    """
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    kept = [i for i in order if axes[i] == 0 or shape[i] > 1]
    dims = tuple(shape[i] for i in kept) if len(kept) < len(axes) else None
    same = order == tuple(range(len(axes)))
    return None if same else order, tuple(axes[i] for i in kept), dims


def merge(tables: Sequence[Table]) -> list[Table]:
    """Add each table into a wider one that has all its positions, if there is one."""
    merged: list[Table] = []
    for number, place in _merging(tuple([positions for positions, _ in tables])):
        positions, array = tables[number]
        if place == len(merged):
            merged.append((positions, array))
        else:
            wider, total = merged[place]
            merged[place] = (wider, total + widened(positions, array, wider))
    return merged


@lru_cache(maxsize=KEPT)
def _merging(every: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, int], ...]:
    """Tables in the order in which they are added, each with what it is added to; by positions."""
    wide: list[set[int]] = []
    found = []
    for number in sorted(range(len(every)), key=lambda number: -len(every[number])):
        own = set(every[number])
        place = next((place for place, known in enumerate(wide) if own <= known), len(wide))
        if place == len(wide):
            wide.append(own)
        found.append((number, place))
    return tuple(found)


def widened(
    mentioned: tuple[int, ...], array: FloatArray, positions: tuple[int, ...]
) -> FloatArray:
    """The table with a dimension of one entry for each position that it does not mention."""
    if mentioned == positions:
        return array
    return array.reshape(_widened_dims(mentioned, array.shape, positions))


@lru_cache(maxsize=KEPT)
def _widened_dims(
    mentioned: tuple[int, ...], shape: tuple[int, ...], positions: tuple[int, ...]
) -> tuple[int, ...]:
    at = dict(zip(mentioned, shape, strict=True))
    return tuple(at.get(position, 1) for position in positions)
