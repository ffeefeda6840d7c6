"""A move is whole or not there, goes on after a kill, and says what is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executors.checkpoint import moving
from executors.checkpoint.checksums import verify
from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.journal import Journal
from executors.checkpoint.moving import carry_out, tile_bytes_within
from executors.checkpoint.pairing import Rename, Request
from executors.checkpoint.safetensors import laid_out_safetensors
from executors.checkpoint.source import read_source
from ir.slicing import Grid, whole_slicing
from tests.executors.checkpoint.files import Arrays, assert_same, read_ranks
from tests.executors.checkpoint.killed_moves import NEW, OLD
from tests.executors.checkpoint.moves import MEMORY_BYTES, cut, move, planned, saved

WHOLE: Arrays = {
    "a": np.random.default_rng(1).standard_normal((64, 96), dtype=np.float32),
    "b": np.random.default_rng(2).standard_normal((32, 4, 8), dtype=np.float32)
    .reshape(128, 8).astype(np.float16),
    "step": np.array(12, np.int64),
}  # fmt: skip


def digests(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def quiet(done: int, total: int) -> None:
    del done, total


def carried(todo: moving.Move, out: Path, **options: Any) -> moving.Outcome:
    return carry_out(todo, out, memory_bytes=MEMORY_BYTES, report=quiet, **options)


@pytest.fixture
def source(folder: Path) -> Path:
    return saved(folder / "in", WHOLE, OLD, ".safetensors")


def test_twenty_kills_lose_nothing(folder: Path, source: Path) -> None:
    before = digests(source)
    (folder / "out").mkdir()
    found = subprocess.run(
        [sys.executable, "-m", "tests.executors.checkpoint.killed_moves", source, folder / "out",
         "20", "5"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    killed, finished, resumed = map(int, found.stdout.split())
    assert killed == 20
    assert finished >= 1
    assert resumed >= 3
    move(source, OLD, Request(NEW), folder / "calm")
    calm = digests(folder / "calm")
    for number in range(finished):
        assert digests(folder / "out" / str(number)) == calm
        assert verify(read_source(folder / "out" / str(number)), quiet) > 0
    assert digests(source) == before
    assert [p.name for p in (folder / "out").iterdir() if p.name.startswith(".")] == []


def test_only_what_was_not_noted_is_written_again(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MOST_TILE_BYTES", 1024)
    todo = planned(source, OLD, Request(NEW))

    class Stop(BaseException):
        pass

    def stop(done: int, total: int) -> None:
        if done > 3 * total // 4:
            raise Stop

    with pytest.raises(Stop):
        carry_out(todo, folder / "out", memory_bytes=MEMORY_BYTES, report=stop, note_bytes=2048)
    assert not (folder / "out").exists()
    done = carried(todo, folder / "out")
    assert done.resumed_bytes > 0
    assert done.written_bytes < todo.nbytes // 2
    for found, wanted in zip(read_ranks(folder / "out"), cut(WHOLE, NEW), strict=True):
        assert_same(found, wanted)


def test_a_move_goes_on_with_other_memory(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo = planned(source, OLD, Request(NEW))

    class Stop(BaseException):
        pass

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise Stop

    for tile_bytes in (512, 1024, 700):
        monkeypatch.setattr(moving, "MOST_TILE_BYTES", tile_bytes)
        with pytest.raises(Stop):
            carry_out(todo, folder / "out", memory_bytes=MEMORY_BYTES, report=stop, note_bytes=512)
    monkeypatch.setattr(moving, "MOST_TILE_BYTES", 2048)
    carried(todo, folder / "out")
    assert verify(read_source(folder / "out"), quiet) > 0
    for found, wanted in zip(read_ranks(folder / "out"), cut(WHOLE, NEW), strict=True):
        assert_same(found, wanted)


def test_a_journal_that_was_cut_short_or_changed_is_believed_as_far_as_it_is_sound(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MOST_TILE_BYTES", 1024)
    todo = planned(source, OLD, Request(NEW))

    class Stop(BaseException):
        pass

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise Stop

    with pytest.raises(Stop):
        carry_out(todo, folder / "out", memory_bytes=MEMORY_BYTES, report=stop, note_bytes=1024)
    journal = folder / ".out.partial" / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) > 3
    middle = lines[2].replace(b'"tile":', b'"tile":9')
    assert middle != lines[2]
    journal.write_bytes(b"".join(lines[:2]) + middle + b"".join(lines[3:])[:-5])
    carried(todo, folder / "out")
    for found, wanted in zip(read_ranks(folder / "out"), cut(WHOLE, NEW), strict=True):
        assert_same(found, wanted)


def test_a_move_that_is_done_is_left_as_it_is(folder: Path, source: Path) -> None:
    todo = planned(source, OLD, Request(NEW))
    carried(todo, folder / "out")
    before = [p.stat().st_mtime_ns for p in (folder / "out").rglob("*")]
    (folder / ".out.partial").mkdir()
    assert carried(todo, folder / "out").written_bytes == 0
    assert [p.stat().st_mtime_ns for p in (folder / "out").rglob("*")] == before
    assert not (folder / ".out.partial").exists()


def test_a_folder_with_something_in_it_is_not_written_to(folder: Path, source: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "mine").write_text("x")
    with pytest.raises(CheckpointError, match="already there"):
        carried(planned(source, OLD, Request(NEW)), folder / "out")
    assert [p.name for p in (folder / "out").iterdir()] == ["mine"]
    with pytest.raises(CheckpointError, match="would lie in the old one"):
        carried(planned(source, OLD, Request(NEW)), source / "new")


def test_an_unfinished_move_of_something_else_is_not_touched(folder: Path, source: Path) -> None:
    stage = folder / ".out.partial"
    stage.mkdir()
    journal = Journal(stage / "journal", "another")
    journal.begin(1024)
    kept = (stage / "journal").read_bytes()
    with pytest.raises(CheckpointError, match="something else is in the way"):
        carried(planned(source, OLD, Request(NEW)), folder / "out")
    assert (stage / "journal").read_bytes() == kept


def test_a_full_disk_is_known_before_anything_is_written(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    with pytest.raises(CheckpointError, match="the disk has 100 bytes left"):
        carried(planned(source, OLD, Request(NEW)), folder / "out")
    assert {p.name for p in folder.iterdir()} == {"in"}


def test_a_disk_that_fills_on_the_way_leaves_nothing(folder: Path, source: Path) -> None:
    before = digests(source)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        with pytest.raises(CheckpointError, match="the disk is full"):
            carried(planned(source, OLD, Request(NEW)), folder / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert {p.name for p in folder.iterdir()} == {"in"}
    assert digests(source) == before


def test_a_source_that_changes_meanwhile_is_an_error(folder: Path, source: Path) -> None:
    todo = planned(source, OLD, Request(NEW))
    path = todo.source.files[0].path

    def change(done: int, total: int) -> None:
        os.utime(path, ns=(1, 1))

    with pytest.raises(CheckpointError, match="changed while it was read"):
        carry_out(todo, folder / "out", memory_bytes=MEMORY_BYTES, report=change)
    assert {p.name for p in folder.iterdir()} == {"in"}


def test_a_file_that_became_shorter_is_an_error(folder: Path, source: Path) -> None:
    todo = planned(source, OLD, Request(NEW))
    os.truncate(todo.source.files[1].path, 200)
    with pytest.raises(CheckpointError, match="became shorter"):
        carried(todo, folder / "out")
    assert {p.name for p in folder.iterdir()} == {"in"}


@pytest.mark.parametrize("form", ["safetensors", "ckpt"])
def test_damage_shows_in_the_checksums(folder: Path, source: Path, form: str) -> None:
    move(source, OLD, Request(NEW), folder / "out", form)
    assert verify(read_source(folder / "out"), quiet) > 0
    path = folder / "out" / "rank_1" / f"checkpoint.{form}"
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="is damaged: its checksum is"):
        verify(read_source(folder / "out"), quiet)


def test_checksums_of_tensors_that_were_turned_are_right_too(folder: Path) -> None:
    path = saved(folder / "in", {"a": WHOLE["a"]}, whole_slicing(), ".safetensors")
    renames = (Rename(("a",), ("turned",), transpose=True),)
    move(path, whole_slicing(), Request(renames=renames), folder / "out", tile_bytes=1024)
    assert verify(read_source(folder / "out"), quiet) > 0
    (found,) = read_ranks(folder / "out")
    assert_same(found, {"turned": np.ascontiguousarray(WHOLE["a"].T)})


def test_the_same_input_gives_the_same_bytes(folder: Path, source: Path) -> None:
    move(source, OLD, Request(NEW), folder / "one", tile_bytes=777)
    move(source, OLD, Request(NEW), folder / "two")
    assert digests(folder / "one") == digests(folder / "two")


def test_too_little_memory_is_said_beforehand() -> None:
    with pytest.raises(CheckpointError, match="1 MiB of memory are too little"):
        tile_bytes_within(2**20)


def _sparse(folder: Path, ranks: int, nbytes: int) -> Path:
    """Slices full of zeros, which take no room, with a few numbers in them."""
    columns = 2**14
    rows = nbytes // (4 * columns * ranks)
    for rank in range(ranks):
        path = folder / f"rank_{rank}" / "checkpoint.safetensors"
        path.parent.mkdir(parents=True)
        file, ((_, head),) = laid_out_safetensors(path, [("w", "float32", (rows, columns))], {})
        with path.open("wb") as out:
            out.write(head)
            out.truncate(file.size)
            for row in range(0, rows, max(1, rows // 7)):
                out.seek(file.entries["w"].segments[0].offset + 4 * (row * columns + 77 * rank))
                out.write(np.float32(rank * rows + row + 1).tobytes())
    return folder


@pytest.mark.slow
def test_two_gigabytes_move_within_256_mib(folder: Path) -> None:
    target = Grid((4, 2), ((1,), (0,)))
    nbytes = -(-2 * 10**9 // 2**19) * 2**19
    source = _sparse(folder / "in", 4, nbytes)
    columns, rows = 2**14, nbytes // 2**16
    dims = '{"tensor_shape":[%d,%d],"field":0,' % (rows, columns)  # noqa: UP031
    for name, matrix, axes in (("old", [4], [0, -1]), ("new", list(target.sizes), None)):
        cuts = axes or [len(matrix) - 1 - d[0] if d else -1 for d in target.dims]
        layout = dims + f'"dev_matrix":{matrix},"tensor_map":{cuts},'
        layout += '"opt_weight_shard_size":0,"opt_weight_shard_step":0}'
        text = '{"current_stage":1,"parallel_strategy_item":{},"parallel_layout_item":{"w":%s}}'
        (folder / f"{name}.json").write_text(text % layout)
    command = [sys.executable, "-m", "cli", "reshard", "--in", str(source)]
    command += ["--from", str(folder / "old.json"), "--to", str(folder / "new.json")]
    command += ["--out", str(folder / "out"), "--memory", "256MiB", "--json"]
    # A small process in between: what a child used at most counts what its parent held at the fork.
    found = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command], capture_output=True, text=True, check=False
    )
    answer, _, peak_kib = found.stdout.rstrip().rpartition("\n")
    assert found.returncode == 0, answer
    assert int(peak_kib) * 1024 <= 256 * 2**20
    assert json.loads(answer)["bytes"] >= 2 * 10**9
    _assert_marks(folder / "out", target, rows, columns)


_MEASURED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
"""Runs a command and prints the most KiB that it held."""


def _assert_marks(out: Path, target: Grid, rows: int, columns: int) -> None:
    """The numbers are where they belong, and nothing else is."""
    marks = {
        (rank * (rows // 4) + row, 77 * rank): float(rank * (rows // 4) + row + 1)
        for rank in range(4)
        for row in range(0, rows // 4, max(1, rows // 28))
    }
    found: dict[tuple[int, int], float] = {}
    for rank in target.ranks:
        (row, end), (column, stop) = target.box(rank, (rows, columns))
        path = out / f"rank_{rank}" / "checkpoint.safetensors"
        part = np.memmap(path, np.float32, "r", path.stat().st_size - 4 * (end - row) *
                         (stop - column), (end - row, stop - column))  # fmt: skip
        for start in range(0, end - row, 1024):
            for i, j in zip(*np.nonzero(part[start : start + 1024]), strict=True):
                found[row + start + int(i), column + int(j)] = float(part[start + i, j])
    assert found == marks
