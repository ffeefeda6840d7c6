"""What of a move is safely on disk, so that a killed one goes on where it was.

The first line says which move it is. Every further line holds a position and the checksums up to
it, and follows the data to disk. A line that was cut short, or that its own checksum denies, ends
the journal: what it would have said is done again.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LONGEST_JOURNAL_BYTES = 2**30


@dataclass(slots=True)
class Progress:
    """How far a move is."""

    tile_bytes: int
    tensor: int = 0
    """Of the list of wanted tensors; all before it are done."""
    tile: int = 0
    """Tiles of this tensor that are done."""
    running: dict[int, tuple[int, int]] = field(default_factory=dict)
    """For each box of this tensor the checksum so far, and how many bytes it covers; -1 where
    they did not come in order.
    """
    done: dict[int, list[int]] = field(default_factory=dict)
    """Checksums of the boxes of each tensor before it; -1 where it must be read back."""


class Journal:
    """The file that holds the progress of one move."""

    def __init__(self, path: Path, job: str) -> None:
        self._path, self._job = path, job
        self._noted = 0

    def begin(self, tile_bytes: int) -> Progress | None:
        """The progress of an earlier attempt at this move, and the file ready for more; none if
        there was one at another move.

        Tiles are counted by their size: with tiles of another size the tensor that was begun is
        begun again.
        """
        progress, length = Progress(tile_bytes), 0
        for line, end in self._lines():
            if length == 0 and line.get("job") != self._job:
                return None
            length = end
            if "job" not in line:
                _take(progress, line)
        if not length:
            self._path.write_bytes(_line({"job": self._job}))
        else:
            os.truncate(self._path, length)
        if progress.tile_bytes != tile_bytes:
            progress.tile_bytes, progress.tile, progress.running = tile_bytes, 0, {}
        self._noted = progress.tensor
        return progress

    def note(self, progress: Progress) -> None:
        """Write down how far the data on disk go."""
        fresh = {i: progress.done[i] for i in range(self._noted, progress.tensor)}
        record = {
            "tensor": progress.tensor,
            "tile": progress.tile,
            "tile_bytes": progress.tile_bytes,
            "running": [[box, *state] for box, state in progress.running.items()],
            "done": [[index, *sums] for index, sums in fresh.items()],
        }
        with self._path.open("ab") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())
        self._noted = progress.tensor

    def _lines(self) -> list[tuple[dict[str, Any], int]]:
        """Sound lines, each with the byte where it ends."""
        if not self._path.exists() or self._path.stat().st_size > LONGEST_JOURNAL_BYTES:
            return []
        out, end = [], 0
        for line in self._path.read_bytes().splitlines(keepends=True):
            text, _, checksum = line.rstrip(b"\n").rpartition(b" ")
            if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
                break
            end += len(line)
            out.append((json.loads(text), end))
        return out


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":")).encode()
    return text + b" %08x\n" % zlib.crc32(text)


def _take(progress: Progress, line: dict[str, Any]) -> None:
    progress.tensor, progress.tile = line["tensor"], line["tile"]
    progress.tile_bytes = line["tile_bytes"]
    progress.running = {box: (checksum, nbytes) for box, checksum, nbytes in line["running"]}
    progress.done.update({index: sums for index, *sums in line["done"]})
