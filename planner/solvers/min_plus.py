"""The inner loop: add tables over different dimensions and minimise over the first dimension.

Sums are taken in blocks that stay in the cache, so that the memory in use is that of the result.
Where there is much to do, products of two tables go to a compiled loop that is ten times as fast
and gives the same bits; small problems are solved before it would be loaded.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from planner.problem import FloatArray

BLOCK_ENTRIES = 1 << 16
"""Entries of one block: 512 KiB of float64, about one second-level cache."""

COMPILED_FROM = 1 << 29
"""Entries that a process visits before it loads the compiled loop: both take half a second."""

Table = tuple[tuple[int, ...], FloatArray]
"""Positions, ascending, and an array with one dimension for each."""


def align(axes: tuple[int, ...], array: FloatArray) -> Table:
    """Bring the dimensions of a table into ascending order of their positions.

    Dimensions of one entry go, but for that of position 0.
    """
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    positions = tuple([axes[i] for i in order if axes[i] == 0 or array.shape[i] > 1])
    if order != tuple(range(len(axes))):
        array = np.ascontiguousarray(array.transpose(order))
    if len(positions) < array.ndim:
        array = array.reshape(
            [array.shape[i] for i, axis in enumerate(sorted(axes)) if axis in positions]
        )
    return positions, array


def merge(tables: Sequence[Table]) -> list[Table]:
    """Add each table into a wider one that has all its positions, if there is one."""
    merged: list[Table] = []
    for positions, array in sorted(tables, key=lambda table: -len(table[0])):
        for number, (wider, total) in enumerate(merged):
            if set(positions) <= set(wider):
                merged[number] = (wider, total + _spread(positions, array, wider))
                break
        else:
            merged.append((positions, array))
    return merged


def minimum_over_first(
    tables: Sequence[Table], positions: tuple[int, ...], sizes: Sequence[int]
) -> FloatArray:
    """Minimum of the sum over position 0.

    Args:
        tables: what is added, at least one; every position is mentioned by one of them.
        positions: positions of the sum, ascending; the first is 0.
        sizes: entries of each position, indexed by position.

    Returns:
        One dimension for each of `positions[1:]`.
    """
    merged = merge(tables)
    shape = tuple([sizes[position] for position in positions])
    if math.prod(shape) > BLOCK_ENTRIES:
        product = _product(merged, math.prod(shape))
        if product is not None:
            return product
    spread = [_spread(mentioned, array, positions) for mentioned, array in merged]
    if math.prod(shape) <= BLOCK_ENTRIES:
        return np.asarray(_total(spread).min(axis=0))
    result = np.empty(shape[1:])
    for rows in _row_blocks(shape):
        _minimise_rows(spread, shape, rows, result)
    return result


class _Compiled:
    """The compiled loop, once there is enough to do."""

    def __init__(self) -> None:
        self._visited = 0
        self._min_plus: Callable[[FloatArray, FloatArray], FloatArray] | None = None

    def loop(self, entries: int) -> Callable[[FloatArray, FloatArray], FloatArray] | None:
        self._visited += entries
        if self._min_plus is None and self._visited > COMPILED_FROM:
            module = importlib.import_module("planner.solvers.kernels.products")
            self._min_plus = module.min_plus
        return self._min_plus


_COMPILED = _Compiled()


def _product(tables: Sequence[Table], entries: int) -> FloatArray | None:
    """Minimum over position 0 of two tables that share no other; None where it is none such."""
    if len(tables) != 2:
        return None
    (left, first), (right, second) = tables
    if left[0] or right[0] or set(left[1:]) & set(right[1:]):
        return None
    loop = _COMPILED.loop(entries)
    if loop is None:
        return None
    rows = len(first)
    lowest = loop(
        np.ascontiguousarray(first.reshape(rows, -1)),
        np.ascontiguousarray(second.reshape(rows, -1)),
    ).reshape(first.shape[1:] + second.shape[1:])
    order = np.argsort([*left[1:], *right[1:]], kind="stable")
    return np.ascontiguousarray(lowest.transpose(order))


def minimum_over_rest(
    tables: Sequence[Table], positions: tuple[int, ...], sizes: Sequence[int]
) -> FloatArray:
    """Minimum of the sum over all positions but 0, shape (sizes[0],)."""
    spread = [_spread(mentioned, array, positions) for mentioned, array in merge(tables)]
    shape = tuple([sizes[position] for position in positions])
    result = np.full(shape[0], np.inf)
    for rows in _row_blocks(shape):
        for first in range(shape[0]):
            block = _block(spread, slice(first, first + 1), rows)
            result[first] = min(result[first], _total(block).min())
    return result


def _spread(
    mentioned: tuple[int, ...], array: FloatArray, positions: tuple[int, ...]
) -> FloatArray:
    if mentioned == positions:
        return array
    at = dict(zip(mentioned, array.shape, strict=True))
    return array.reshape([at.get(position, 1) for position in positions])


def _total(spread: Sequence[FloatArray]) -> FloatArray:
    total = spread[0]
    for array in spread[1:]:
        total = total + array
    return total


def _row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of the second dimension whose block, for one entry of the first, fits the cache."""
    if len(shape) == 1:
        yield slice(0, 1)
        return
    rows = max(1, BLOCK_ENTRIES // max(1, math.prod(shape[2:])))
    for start in range(0, shape[1], rows):
        yield slice(start, min(start + rows, shape[1]))


def _minimise_rows(
    spread: Sequence[FloatArray], shape: tuple[int, ...], rows: slice, result: FloatArray
) -> None:
    entries = (rows.stop - rows.start) * math.prod(shape[2:])
    step = max(1, BLOCK_ENTRIES // entries)
    target = result[rows]
    for start in range(0, shape[0], step):
        group = slice(start, min(start + step, shape[0]))
        block = _block(spread, group, rows)
        lowest = _total(block).min(axis=0)
        if start:
            np.minimum(target, lowest, out=target)
        else:
            target[...] = lowest


def _block(spread: Sequence[FloatArray], first: slice, rows: slice) -> list[FloatArray]:
    return [_cut(array, first, rows) for array in spread]


def _cut(array: FloatArray, first: slice, rows: slice) -> FloatArray:
    if array.shape[0] > 1:
        array = array[first]
    if array.ndim > 1 and array.shape[1] > 1:
        array = array[:, rows]
    return array
