"""A move carried out: into a hidden folder beside the target, which then appears at once."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import math
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from executors.checkpoint.checksums import NAME, checksums_text, read_checksums
from executors.checkpoint.copying import (
    LEAST_TILE_BYTES,
    MOST_TILE_BYTES,
    Copier,
    checksums_of,
    put,
    read_back,
    tiles_of,
)
from executors.checkpoint.entries import raw_dtype
from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.handles import Handles, sync_folders
from executors.checkpoint.journal import Journal, Progress
from executors.checkpoint.outputs import Output
from executors.checkpoint.pairing import Wanted
from executors.checkpoint.source import Source
from ir.slicing import box_dims

Report: TypeAlias = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""

NOTE_BYTES = 256 * 2**20
NOTE_SECONDS = 5.0
_SLACK_BYTES = 32 * 2**20
"""Buffers of reading and writing, and what the interpreter allocates besides tiles."""


@dataclass(frozen=True, slots=True)
class Move:
    """Everything that there is to do."""

    source: Source
    wanted: tuple[Wanted, ...]
    outputs: tuple[Output, ...]

    @property
    def nbytes(self) -> int:
        """Of all new files."""
        return sum(output.file.size for output in self.outputs)

    @property
    def job(self) -> str:
        """A name of this move: equal for equal files, layouts and options."""
        digest = hashlib.sha256()

        def add(*parts: object) -> None:
            digest.update(repr(parts).encode())

        for file in self.source.files:
            state = file.path.stat()
            place = os.path.relpath(file.path, self.source.path)
            add(place, state.st_size, state.st_mtime_ns)
        for each in self.wanted:
            add(each.name, each.dtype, each.slices.dims, each.slices.boxes, each.slices.ranks)
            for origin in each.origins:
                add(origin.tensor.name, origin.at, origin.start, origin.order)
        for output in self.outputs:
            add(str(output.file.path), output.file.size)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done."""

    written_bytes: int
    resumed_bytes: int
    """Bytes of tensors that an earlier attempt had written."""
    peak_memory_bytes: int
    """Most memory that this process had at once."""


def carry_out(
    move: Move,
    out: Path,
    *,
    memory_bytes: int,
    report: Report,
    note_bytes: int = NOTE_BYTES,
) -> Outcome:
    """Write the new checkpoint; its folder appears when all of it is there.

    A move that was killed goes on where it was if it is asked for again. One that is already
    done is left as it is.

    Raises:
        CheckpointError: the folder is taken, the memory too small, the disk full, or the source
            changed meanwhile. Nothing new is left then.
    """
    tile_bytes = tile_bytes_within(memory_bytes)
    job = move.job
    stage = out.parent / f".{out.name}.partial"
    if _is_done(out, job):
        shutil.rmtree(stage, ignore_errors=True)
        return Outcome(0, move.nbytes, _peak_bytes())
    _check_place(move, out, stage)
    with _reported(out), _staged(stage):
        journal = Journal(stage / "journal", job)
        progress = journal.begin(tile_bytes)
        if progress is None:
            what = "an unfinished move of something else is in the way"
            raise _BlockedError(what, str(stage), "delete that folder, or finish that move first")
        outcome = _Mover(move, stage / "files", tile_bytes, note_bytes).run(
            journal, progress, report, job
        )
        if move.job != job:
            what, fix = "the source changed while it was read", "move it when nothing writes to it"
            raise CheckpointError(what, str(move.source.path), fix)
        (stage / "files").rename(out)
        sync_folders([out.parent])
    shutil.rmtree(stage, ignore_errors=True)
    return outcome


class _BlockedError(CheckpointError):
    """The hidden folder is somebody else's and stays."""


def tile_bytes_within(memory_bytes: int) -> int:
    """Bytes of a tile for which the whole process stays within a memory.

    Raises:
        CheckpointError: not even small tiles do.
    """
    room = (memory_bytes - _peak_bytes() - _SLACK_BYTES) // 3
    if room < LEAST_TILE_BYTES:
        least = _peak_bytes() + _SLACK_BYTES + 3 * LEAST_TILE_BYTES
        what = f"{memory_bytes >> 20} MiB of memory are too little"
        raise CheckpointError(what, "--memory", f"give at least {(least >> 20) + 1}MiB")
    return min(room, MOST_TILE_BYTES)


def _peak_bytes() -> int:
    """Most that the process held so far.

    Linux tells it of the program alone; what `getrusage` says may be that of the process which
    started it.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _is_done(out: Path, job: str) -> bool:
    if not out.is_dir():
        return False
    try:
        record = read_checksums(out)
    except CheckpointError:
        return False
    return record is not None and record.get("job") == job


def _check_place(move: Move, out: Path, stage: Path) -> None:
    if out.is_symlink() or out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise CheckpointError("something is already there", f"--out {out}", "name a new folder")
    source = move.source.path.resolve()
    if source in {out.resolve(), *out.resolve().parents} and source.is_dir():
        what, fix = "the new checkpoint would lie in the old one", "name a folder elsewhere"
        raise CheckpointError(what, f"--out {out}", fix)
    parent = next(p for p in (out.parent, *out.parent.parents) if p.exists())
    held = sum(p.stat().st_blocks * 512 for p in stage.rglob("*") if p.is_file())
    free = shutil.disk_usage(parent).free + held
    if free < move.nbytes:
        what = f"the disk has {free} bytes left, {move.nbytes} are needed"
        raise CheckpointError(what, f"--out {out}", "name a folder on a larger disk")


@contextmanager
def _staged(stage: Path) -> Iterator[None]:
    """The hidden folder for this process alone; an error takes it away, a kill leaves it."""
    (stage / "files").mkdir(parents=True, exist_ok=True)
    lock = os.open(stage, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what, fix = "another process is at this move", "wait until it is done"
            raise _BlockedError(what, str(stage), fix) from None
        yield
    except _BlockedError:
        raise
    except Exception:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    finally:
        os.close(lock)


@contextmanager
def _reported(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
        what = "the disk is full" if full else "the checkpoint cannot be written"
        fix = "name a folder on a larger disk" if full else "name a folder that you may write to"
        place = f"--out {out}" + (f", {error.filename}" if error.filename else "")
        raise CheckpointError(f"{what}: {error.strerror or error}", place, fix) from error


class _Mover:
    """One attempt."""

    def __init__(self, move: Move, folder: Path, tile_bytes: int, note_bytes: int) -> None:
        self.move, self.folder = move, folder
        self.tile_bytes, self.note_bytes = tile_bytes, note_bytes
        self.noted_s, self.fresh = time.monotonic(), 0

    def run(self, journal: Journal, progress: Progress, report: Report, job: str) -> Outcome:
        """Everything but the last step."""
        with Handles(os.O_RDONLY) as sources, Handles(os.O_RDWR | os.O_CREAT) as targets:
            self._prepare(targets)
            resumed = written = self._before(progress)
            copier = Copier(sources, targets, self.folder, self.move.outputs, self.tile_bytes)
            while progress.tensor < len(self.move.wanted):
                written = self._tensor(copier, journal, progress, written, report)
            checksums = self._checksums(targets, progress)
            self._seal(targets, checksums)
            (self.folder / NAME).write_text(checksums_text(job, checksums), encoding="utf-8")
            targets.of(self.folder / NAME)
            targets.sync()
        folders = [p for p in self.folder.rglob("*") if p.is_dir()]
        sync_folders([self.folder, *folders])
        return Outcome(written - resumed, resumed, _peak_bytes())

    def _prepare(self, targets: Handles) -> None:
        """All files at their full length, with everything that is no tensor."""
        for output in self.move.outputs:
            path = self.folder / output.file.path
            with contextlib.suppress(FileExistsError):
                path.parent.mkdir(parents=True)
            handle = targets.of(path)
            os.ftruncate(handle, output.file.size)
            for offset, frame in output.frames:
                put(handle, frame, offset)

    def _tensor(
        self, copier: Copier, journal: Journal, progress: Progress, written: int, report: Report
    ) -> int:
        wanted = self.move.wanted[progress.tensor]
        tiles = tiles_of(wanted, self.tile_bytes)
        while progress.tile < len(tiles):
            nbytes = copier.copy_tile(wanted, tiles[progress.tile], progress)
            progress.tile += 1
            written, self.fresh = written + nbytes, self.fresh + nbytes
            if progress.tile < len(tiles):
                self._note(copier, journal, progress)
            report(written, self.move.nbytes)
        progress.done[progress.tensor] = checksums_of(wanted, progress.running)
        progress.tensor, progress.tile, progress.running = progress.tensor + 1, 0, {}
        self._note(copier, journal, progress)
        return written

    def _note(self, copier: Copier, journal: Journal, progress: Progress) -> None:
        late = time.monotonic() - self.noted_s > NOTE_SECONDS
        if self.fresh >= self.note_bytes or (late and self.fresh):
            copier.targets.sync()
            journal.note(progress)
            self.noted_s, self.fresh = time.monotonic(), 0

    def _before(self, progress: Progress) -> int:
        """Bytes that an earlier attempt wrote."""
        count = 0
        for wanted in self.move.wanted[: progress.tensor]:
            for ranks in wanted.slices.ranks:
                entry = self.move.outputs[ranks[0]].file.entries[wanted.name]
                count += entry.nbytes * len(ranks)
        if progress.tile:
            wanted = self.move.wanted[progress.tensor]
            item = raw_dtype(wanted.dtype).itemsize
            for tile in tiles_of(wanted, self.tile_bytes)[: progress.tile]:
                for index, box in wanted.slices.overlapping(tile):
                    copies = len(wanted.slices.ranks[index])
                    count += math.prod(box_dims(box)) * item * copies
        return count

    def _seal(self, targets: Handles, checksums: dict[str, dict[str, int]]) -> None:
        """The checksums that files hold themselves."""
        for output in self.move.outputs:
            sums = checksums[str(output.file.path)]
            for name, offsets in output.checksums.items():
                for offset in offsets:
                    handle = targets.of(self.folder / output.file.path)
                    put(handle, sums[name].to_bytes(4, "little"), offset)

    def _checksums(self, targets: Handles, progress: Progress) -> dict[str, dict[str, int]]:
        out: dict[str, dict[str, int]] = {str(o.file.path): {} for o in self.move.outputs}
        for number, wanted in enumerate(self.move.wanted):
            sums = progress.done[number]
            for index, ranks in enumerate(wanted.slices.ranks):
                for rank in ranks:
                    file = self.move.outputs[rank].file
                    if sums[index] < 0:
                        path, entry = self.folder / file.path, file.entries[wanted.name]
                        sums[index] = read_back(targets.of(path), str(path), entry)
                    out[str(file.path)][wanted.name] = sums[index]
        return out
