"""One move that is killed again and again: `python -m ... SOURCE OUT KILLS SEED`.

Each attempt is a process of its own that the parent kills after a random time; the attempt
after that goes on. When a move ends before it was killed often enough another one begins. Prints
how many attempts found work of an earlier one.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from unittest.mock import patch

from executors.checkpoint import moving
from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.pairing import Request
from executors.checkpoint.safetensors import read_safetensors
from ir.slicing import Grid
from tests.executors.checkpoint.moves import planned, slicing

OLD = slicing({"a": Grid((4,), ((0,), ())), "b": Grid((2, 2), ((1,), (0,)))}, "old")
NEW = slicing({"a": Grid((2,), ((), (0,))), "b": Grid((2,), ((0,), ()))}, "new")


def attempt(source: Path, out: Path) -> None:
    """Slowly, in small tiles, with a note after every few."""
    with patch.object(moving, "MOST_TILE_BYTES", 512):
        moving.carry_out(
            planned(source, OLD, Request(NEW)),
            out,
            memory_bytes=2**30,
            report=lambda done, total: time.sleep(0.001),
            note_bytes=2048,
        )


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def main() -> None:
    source, out, kills, seed = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])
    draw = random.Random(seed)
    killed = finished = resumed = 0
    unfinished = True
    while killed < kills or unfinished:
        target = out / str(finished)
        journal = out / f".{target.name}.partial" / "journal"
        resumed += journal.exists() and journal.read_bytes().count(b"\n") > 1
        child = os.fork()
        if not child:
            try:
                attempt(source, target)
            except CheckpointError as error:
                sys.stderr.write(str(error))
                sys.stderr.flush()
                os._exit(3)
            os._exit(0)
        # Half of the kills come after a time, half after so much work that a slow machine does it.
        by_time, grown = draw.random() < 0.5, size_of(journal) + draw.randrange(1000)
        deadline = time.monotonic() + (draw.uniform(0, 0.1) if by_time and killed < kills else 60)
        ended, status = 0, 0
        while not ended and time.monotonic() < deadline:
            if killed < kills and not by_time and size_of(journal) > grown:
                break
            time.sleep(0.001)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            killed, unfinished = killed + 1, True
        elif status:
            sys.exit(f"the attempt ended with {os.waitstatus_to_exitcode(status)}")
        else:
            finished, unfinished = finished + 1, False
        for file in target.glob("rank_*/*.safetensors"):
            read_safetensors(file)
    sys.stdout.write(f"{killed} {finished} {resumed}\n")


if __name__ == "__main__":
    main()
