"""How fast `planner reshard` moves a checkpoint, in how much memory, against copying its files.

    python -m benchmarks.reshard FOLDER --size 20GiB --memory 1GiB

Writes a checkpoint of that size into FOLDER (a new folder, deleted at the end), 8 ranks that cut
every matrix 4 x 2 ways, and moves it to 4 ranks that cut it 2 x 2 ways in another order. Copying
and moving both end when the bytes are on disk; both begin with the files out of the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from executors.checkpoint.copying import put
from executors.checkpoint.safetensors import laid_out_safetensors
from exporters.mindspore.strategy import ParameterLayout, StrategyCheckpoint, write
from topology.units import format_bytes, parse_bytes

ROWS, COLUMNS = 8192, 8192
"""Of each matrix of float32: 256 MiB."""
SOURCE = ((4, 2), (1, 0))
TARGET = ((2, 2), (0, 1))


def strategy(path: Path, names: list[str], cut: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """A strategy file with one layout for all matrices."""
    layouts = tuple(ParameterLayout(name, *cut, (ROWS, COLUMNS)) for name in names)
    write(path, StrategyCheckpoint(1, (), layouts))


def checkpoint(folder: Path, names: list[str]) -> None:
    """Random slices, rank by rank."""
    dims = (ROWS // 4, COLUMNS // 2)
    for rank in range(8):
        path = folder / f"rank_{rank}" / "checkpoint.safetensors"
        path.parent.mkdir(parents=True)
        file, frames = laid_out_safetensors(path, [(n, "float32", dims) for n in names], {})
        noise = np.random.default_rng(rank).integers(0, 256, 2**20, np.uint8)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT)
        for offset, frame in frames:
            put(handle, frame, offset)
        for entry in file.entries.values():
            place = entry.segments[0]
            for start in range(0, place.nbytes, noise.size):
                noise[:8] = np.frombuffer(start.to_bytes(8, "little"), np.uint8)
                put(handle, noise.data[: place.nbytes - start], place.offset + start)
        os.close(handle)


def forget(folder: Path) -> None:
    """Write what is dirty, and take the files out of the page cache."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def copied_s(source: Path, target: Path) -> float:
    """Seconds of a copy of all files until they are on disk."""
    forget(source)
    start = time.monotonic()
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    subprocess.run(["sync", "-f", str(target)], check=True)
    return time.monotonic() - start


def main() -> None:
    """One table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="20GiB")
    parser.add_argument("--memory", default="1GiB")
    given = parser.parse_args()
    count = max(1, round(parse_bytes(given.size) / (4 * ROWS * COLUMNS)))
    names = [f"layers.{i}.weight" for i in range(count)]
    given.folder.mkdir()
    try:
        checkpoint(given.folder / "in", names)
        strategy(given.folder / "source.json", names, SOURCE)
        strategy(given.folder / "target.json", names, TARGET)
        copy_s = copied_s(given.folder / "in", given.folder / "copy")
        shutil.rmtree(given.folder / "copy")
        forget(given.folder / "in")
        command = [sys.executable, "-m", "cli", "reshard", "--in", given.folder / "in"]
        command += ["--from", given.folder / "source.json", "--to", given.folder / "target.json"]
        command += ["--out", given.folder / "out", "--memory", given.memory, "--json"]
        start = time.monotonic()
        done = subprocess.run([str(c) for c in command], check=True, capture_output=True)
        move_s = time.monotonic() - start
    finally:
        shutil.rmtree(given.folder)
    facts = json.loads(done.stdout)
    nbytes = facts["bytes"]
    print("| | bytes | seconds | MB/s | peak memory |")
    print("|---|---|---|---|---|")
    print(f"| cp | {format_bytes(nbytes)} | {copy_s:.1f} | {nbytes / copy_s / 1e6:.0f} | |")
    memory = format_bytes(facts["peak_memory_bytes"])
    rate = nbytes / move_s / 1e6
    print(f"| reshard | {format_bytes(nbytes)} | {move_s:.1f} | {rate:.0f} | {memory} |")


if __name__ == "__main__":
    main()
