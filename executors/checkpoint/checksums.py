"""`checksums.json`: what every tensor of a checkpoint should be."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from executors.checkpoint.ckpt import CHECKSUM_BYTES, CHECKSUM_TAG
from executors.checkpoint.copying import read_back
from executors.checkpoint.entries import CheckpointFile
from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.handles import Handles
from executors.checkpoint.source import Source

NAME = "checksums.json"
FORMAT = "parallel-checkpoint-checksums"
VERSION = 1
_LARGEST_BYTES = 2**30
_BUFFER_BYTES = 2**20
_FIX = "copy the file again from where it is sound, or pass --no-verify to take it as it is"


def checksums_text(job: str, files: Mapping[str, Mapping[str, int]]) -> str:
    """Text of the file: CRC-32 of the bytes of each tensor, file by file."""
    body = {
        path: {name: f"{checksum:08x}" for name, checksum in tensors.items()}
        for path, tensors in files.items()
    }
    record = {"format": FORMAT, "version": VERSION, "job": job, "files": body}
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def read_checksums(folder: Path) -> dict[str, Any] | None:
    """The record in a folder; none if there is none.

    Raises:
        CheckpointError: it is damaged.
    """
    path = folder / NAME
    if not path.is_file():
        return None
    fix = "delete the file, or pass --no-verify"
    if path.stat().st_size > _LARGEST_BYTES:
        raise CheckpointError("the checksums are too many", str(path), fix)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        what = f"the checksums cannot be read: {error}"
        raise CheckpointError(what, str(path), fix) from None
    files = record.get("files") if isinstance(record, dict) else None
    known = isinstance(files, dict) and all(isinstance(v, dict) for v in files.values())
    if not known or record.get("format") != FORMAT:
        raise CheckpointError("the checksums are not what this program writes", str(path), fix)
    found: dict[str, Any] = record
    return found


def verify(source: Source, report: Callable[[int, int], None]) -> int:
    """Read the source once and hold it against what is known of it; returns the bytes read.

    Raises:
        CheckpointError: a tensor is not what it should be.
    """
    files = source.files
    folder = source.path if source.path.is_dir() else source.path.parent
    record = read_checksums(folder)
    known = {folder / path: sums for path, sums in (record["files"] if record else {}).items()}
    checked = [f for f in files if f.path in known or f.form == "ckpt"]
    total, done = sum(file.size for file in checked), 0
    with Handles(os.O_RDONLY) as handles:
        for file in checked:
            handle = handles.of(file.path)
            if file.path in known:
                _verify_tensors(handle, file, known[file.path])
            elif not _verify_trailer(handle, file):
                total -= file.size
                continue
            done += file.size
            report(done, total)
    return done


def _verify_tensors(handle: int, file: CheckpointFile, sums: Mapping[str, object]) -> None:
    odd = sorted(set(sums) ^ set(file.entries))
    if odd:
        what = f"the file and its checksums differ in what tensors there are: {odd[0]!r}"
        raise CheckpointError(what, str(file.path), _FIX)
    for name, entry in file.entries.items():
        found = f"{read_back(handle, str(file.path), entry):08x}"
        if found != sums[name]:
            what = f"tensor {name!r} is damaged: its checksum is {found}, not {sums[name]}"
            raise CheckpointError(what, str(file.path), _FIX)


def _verify_trailer(handle: int, file: CheckpointFile) -> bool:
    """Hold a file of MindSpore against the checksum that it ends with, if it does."""
    tail = os.pread(handle, CHECKSUM_BYTES, max(0, file.size - CHECKSUM_BYTES))
    if not tail.startswith(CHECKSUM_TAG):
        return False
    checksum = 0
    for block in _blocks(handle, file.size - CHECKSUM_BYTES):
        checksum = zlib.crc32(block, checksum)
    wanted = int.from_bytes(tail[len(CHECKSUM_TAG) :], "big")
    if checksum != wanted:
        what = f"the file is damaged: its checksum is {checksum:08x}, not {wanted:08x}"
        raise CheckpointError(what, str(file.path), _FIX)
    return True


def _blocks(handle: int, size: int) -> Iterator[bytes]:
    for start in range(0, size, _BUFFER_BYTES):
        yield os.pread(handle, min(_BUFFER_BYTES, size - start), start)
