"""Boxes of tensors between files and arrays: long runs at once, short ones by the span."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from executors.checkpoint.entries import Segment
from executors.checkpoint.errors import CheckpointError
from ir.slicing import Box, box_dims

Array: TypeAlias = NDArray[Any]
Sink: TypeAlias = Callable[[int, memoryview], None]
"""Takes bytes that begin at a byte of the tensor."""

SHORT_RUN_BYTES = 32 * 2**10
"""Runs below this are read with what lies between them: a call costs about as much."""
LEAST_RUN_BYTES = 4 * 2**10
"""Runs below this are read so however much lies between."""
SCRATCH_BYTES = 4 * 2**20
"""Most bytes that one call reads or writes through a buffer."""


@dataclass(frozen=True, slots=True)
class _Fold:
    """A box with neighbouring dimensions made one, as far as both sides are consecutive."""

    whole: tuple[int, ...]
    """Dims of the tensor that the file holds."""
    box: tuple[tuple[int, int], ...]
    array: Array
    """The array in the same dims; it shares the memory of the one given."""


def read_box(
    file: int, where: str, segments: Sequence[Segment], dims: Sequence[int], box: Box, out: Array
) -> None:
    """Fill an array with a box of a tensor in a file.

    Args:
        file: descriptor.
        where: name of the file, for errors.
        segments: where the tensor lies.
        dims: of the tensor.
        box: the part wanted.
        out: array with the dims of the box; any strides.

    Raises:
        CheckpointError: the file ends before.
    """
    fold = _folded(dims, box, out)
    for start, width, array in _matrices(fold):
        item, (rows, columns) = array.itemsize, array.shape
        run = columns * item
        if run >= SHORT_RUN_BYTES and array.strides[1] == item:
            for row in range(rows):
                _read(file, where, segments, (start + row * width) * item, _bytes(array[row]))
        elif width * item <= SCRATCH_BYTES and (2 * columns >= width or run < LEAST_RUN_BYTES):
            _read_spans(file, where, segments, (start, width), array)
        else:
            _read_runs(file, where, segments, (start, width), array)


def _read_spans(
    file: int, where: str, segments: Sequence[Segment], place: tuple[int, int], array: Array
) -> None:
    """Several rows at once, with what lies between them."""
    (start, width), (rows, columns), item = place, array.shape, array.itemsize
    batch = min(rows, max(1, SCRATCH_BYTES // (width * item)))
    scratch = np.empty((batch, width), array.dtype)
    for row in range(0, rows, batch):
        count = min(batch, rows - row)
        span = (count - 1) * width + columns
        view = _bytes(scratch.reshape(-1)[:span])
        _read(file, where, segments, (start + row * width) * item, view)
        array[row : row + count] = scratch[:count, :columns]


def _read_runs(
    file: int, where: str, segments: Sequence[Segment], place: tuple[int, int], array: Array
) -> None:
    """Row by row, through a buffer: what lies between is long, or the array is not consecutive."""
    (start, width), (rows, columns), item = place, array.shape, array.itemsize
    scratch = np.empty(min(columns, max(1, SCRATCH_BYTES // item)), array.dtype)
    for row in range(rows):
        for column in range(0, columns, scratch.size):
            held = scratch[: columns - column]
            _read(file, where, segments, (start + row * width + column) * item, _bytes(held))
            array[row, column : column + held.size] = held


def write_box(dims: Sequence[int], box: Box, array: Array, sink: Sink) -> None:
    """Hand the bytes of a box of a tensor to where they belong.

    Args:
        dims: of the tensor.
        box: the part that the array is.
        array: with the dims of the box; any strides.
        sink: called with the byte of the tensor and what stands there, ascending.
    """
    fold = _folded(dims, box, array)
    for start, width, part in _matrices(fold):
        item, (rows, columns) = part.itemsize, part.shape
        if part.flags.c_contiguous and (columns == width or rows == 1):
            sink(start * item, _bytes(part.reshape(-1)))
            continue
        if columns == width:
            batch = max(1, SCRATCH_BYTES // (columns * item))
            for row in range(0, rows, batch):
                block = np.ascontiguousarray(part[row : row + batch])
                sink((start + row * width) * item, _bytes(block.reshape(-1)))
            continue
        for row in range(rows):
            run = np.ascontiguousarray(part[row])
            sink((start + row * width) * item, _bytes(run))


def pieces(segments: Sequence[Segment], start: int, nbytes: int) -> Iterator[tuple[int, int, int]]:
    """Where consecutive bytes of a tensor lie: offset in the file, first of them, how many."""
    end = start + nbytes
    for segment in segments:
        first, last = max(start, segment.start), min(end, segment.start + segment.nbytes)
        if first < last:
            yield segment.offset + first - segment.start, first - start, last - first


def _read(file: int, where: str, segments: Sequence[Segment], start: int, view: memoryview) -> None:
    for offset, first, nbytes in pieces(segments, start, len(view)):
        done = 0
        while done < nbytes:
            got = os.preadv(file, [view[first + done : first + nbytes]], offset + done)
            if not got:
                fix = "copy the file again; nothing may change it while it is read"
                raise CheckpointError("the file became shorter", where, fix)
            done += got


def _bytes(array: Array) -> memoryview:
    return array.view(np.uint8).data


def _folded(dims: Sequence[int], box: Box, array: Array) -> _Fold:
    """Merge a dimension with the next one where the box has all of that and the array follows."""
    whole: list[int] = []
    merged: list[tuple[int, int]] = []
    shape: list[int] = []
    strides: list[int] = []
    lengths = box_dims(box)
    for index in range(len(dims) - 1, -1, -1):
        size, (first, end) = dims[index], box[index]
        follows = (
            whole
            and merged[-1] == (0, whole[-1])
            and (
                1 in {lengths[index], shape[-1]} or array.strides[index] == strides[-1] * shape[-1]
            )
        )
        if follows:
            inner = whole[-1]
            strides[-1] = array.strides[index] if shape[-1] == 1 else strides[-1]
            whole[-1], merged[-1] = size * inner, (first * inner, end * inner)
            shape[-1] *= lengths[index]
            continue
        whole.append(size)
        merged.append((first, end))
        shape.append(lengths[index])
        strides.append(array.strides[index])
    if not whole:
        whole, merged, shape, strides = [1], [(0, 1)], [1], [array.itemsize]
    view = np.lib.stride_tricks.as_strided(array, shape[::-1], strides[::-1])
    return _Fold(tuple(whole[::-1]), tuple(merged[::-1]), view)


def _matrices(fold: _Fold) -> Iterator[tuple[int, int, Array]]:
    """The box as matrices: first element in the tensor, elements from row to row, array."""
    whole, box, array = fold.whole, fold.box, fold.array
    if len(whole) == 1:
        yield box[0][0], whole[0], array.reshape(1, -1)
        return
    width = whole[-1]
    for outer in np.ndindex(*array.shape[:-2]):
        index = 0
        for size, (first, _), position in zip(whole, box, outer, strict=False):
            index = index * size + first + position
        yield (index * whole[-2] + box[-2][0]) * width + box[-1][0], width, array[outer]
