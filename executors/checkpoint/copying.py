"""Tensors from the old files to the new ones, tile by tile, within a given memory.

A tile is a box of one target tensor. It is put together from all source slices that overlap it,
each read once, and then written to every rank that keeps a part of it. Tiles are as wide as fits,
so that both sides are read and written in long runs.
"""

from __future__ import annotations

import itertools
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from executors.checkpoint.boxes_io import Array, pieces, read_box, write_box
from executors.checkpoint.entries import Entry, raw_dtype
from executors.checkpoint.handles import Handles
from executors.checkpoint.journal import Progress
from executors.checkpoint.outputs import Output
from executors.checkpoint.pairing import Origin, Wanted
from ir.slicing import Box, box_dims, common_box, part_of

LEAST_TILE_BYTES = 2**20
MOST_TILE_BYTES = 16 * 2**20
"""Larger tiles are no faster: they leave the processor's cache."""


def tiles_of(wanted: Wanted, tile_bytes: int) -> list[Box]:
    """Boxes that tile a tensor, ascending; the last dimensions whole as far as memory allows.

    A tensor that is turned on the way gets square tiles: runs are then as long on both sides.
    """
    dims = wanted.slices.dims
    room = max(1, tile_bytes // raw_dtype(wanted.origins[0].tensor.dtype).itemsize)
    turned = any(origin.is_turned for origin in wanted.origins)
    lengths = [1] * len(dims)
    for index in range(len(dims) - 1, -1, -1):
        size = dims[index]
        if turned and index == len(dims) - 1 and math.prod(dims) > room:
            size = min(size, math.isqrt(room))
        lengths[index] = max(1, min(size, room))
        room //= lengths[index]
    steps = [
        [(first, min(first + length, size)) for first in range(0, size, length)]
        for size, length in zip(dims, lengths, strict=True)
    ]
    return list(itertools.product(*steps))


@dataclass(frozen=True, slots=True)
class Copier:
    """Moves tensors between files that are open."""

    sources: Handles
    targets: Handles
    folder: Path
    outputs: Sequence[Output]
    tile_bytes: int

    def copy_tile(self, wanted: Wanted, tile: Box, progress: Progress) -> int:
        """Read one tile and write what the ranks keep of it; returns the bytes written."""
        kept = list(wanted.slices.overlapping(tile))
        if not kept:
            return 0
        spans = zip(*(box for _, box in kept), strict=True)
        needed: Box = tuple((min(f for f, _ in s), max(e for _, e in s)) for s in spans)
        array = self._read(wanted, needed)
        written = 0
        for index, box in kept:
            written += self._write(wanted, index, box, part_of(array, box, needed), progress)
        return written

    def _read(self, wanted: Wanted, box: Box) -> Array:
        old = wanted.origins[0].tensor.dtype
        array: Array = np.empty(box_dims(box), raw_dtype(old))
        for origin in wanted.origins:
            shared = common_box(origin.at, box)
            if shared is not None:
                self._read_origin(origin, shared, part_of(array, shared, box))
        return converted(array, old, wanted.dtype)

    def _read_origin(self, origin: Origin, box: Box, out: Array) -> None:
        """Fill an array in target order from the slices of one source tensor."""
        slices, outer = origin.tensor.slices, origin.in_source(box)
        turned = origin.as_source(out)
        for index, shared in slices.overlapping(outer):
            place, base = origin.tensor.places[index], slices.boxes[index]
            local = tuple((f - b, e - b) for (f, e), (b, _) in zip(shared, base, strict=True))
            path, entry = place.file.path, place.entry
            handle = self.sources.of(path)
            read_box(
                handle, str(path), entry.segments, entry.dims, local, part_of(turned, shared, outer)
            )

    def _write(self, wanted: Wanted, index: int, box: Box, part: Array, progress: Progress) -> int:
        """Write one part to all ranks that keep it, and carry its checksum on."""
        base, ranks = wanted.slices.boxes[index], wanted.slices.ranks[index]
        local = tuple((f - b, e - b) for (f, e), (b, _) in zip(box, base, strict=True))
        entries = [(rank, self.outputs[rank].file.entries[wanted.name]) for rank in ranks]
        count = 0

        def sink(start: int, data: memoryview) -> None:
            nonlocal count
            checksum, reached = progress.running.get(index, (0, 0))
            if reached == start:
                progress.running[index] = (zlib.crc32(data, checksum), start + len(data))
            elif reached >= 0:
                progress.running[index] = (0, -1)
            for rank, entry in entries:
                self._put(rank, entry, start, data)
            count += len(data) * len(entries)

        write_box(box_dims(base), local, part, sink)
        return count

    def _put(self, rank: int, entry: Entry, start: int, data: memoryview) -> None:
        handle = self.targets.of(self.folder / self.outputs[rank].file.path)
        for offset, first, nbytes in pieces(entry.segments, start, len(data)):
            put(handle, data[first : first + nbytes], offset)


def converted(raw: Array, old: str, new: str) -> Array:
    """Elements of one type as those of another, both as raw bits; rounded to nearest, ties to even.

    >>> float_one = np.array([0x3F800000], np.uint32)
    >>> hex(int(converted(float_one, "float32", "bfloat16")[0]))
    '0x3f80'
    """
    if old == new:
        return raw
    with np.errstate(over="ignore", invalid="ignore"):
        values = raw.view(_float(old)).astype(_float(new))
    return values.view(raw_dtype(new))


def _float(dtype: str) -> np.dtype[Any]:
    if dtype == "bfloat16":
        import ml_dtypes  # noqa: PLC0415

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)


def put(handle: int, data: memoryview | bytes, offset: int) -> None:
    """Write all of it."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(handle, view[done:], offset + done)


def checksums_of(wanted: Wanted, running: Mapping[int, tuple[int, int]]) -> list[int]:
    """The checksum of every box of a finished tensor; -1 where its bytes did not come in order."""
    item = raw_dtype(wanted.dtype).itemsize
    out = []
    for index, box in enumerate(wanted.slices.boxes):
        nbytes = math.prod(box_dims(box)) * item
        checksum, reached = running.get(index, (0, 0))
        out.append(checksum if reached == nbytes else -1)
    return out


def read_back(handle: int, where: str, entry: Entry) -> int:
    """The checksum of a tensor as it stands in a file."""
    total, checksum = entry.nbytes, 0
    buffer = np.empty(min(LEAST_TILE_BYTES, max(total, 1)), np.uint8)
    for start in range(0, total, buffer.size):
        part = buffer[: total - start]
        box = ((start, start + part.size),)
        read_box(handle, where, entry.segments, (total,), box, part)
        checksum = zlib.crc32(part.data, checksum)
    return checksum
