"""Distributed checkpoints of torch are written without torch; a judge has torch load them."""

from __future__ import annotations

import hashlib
import io
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executors.checkpoint import moving
from executors.checkpoint.checksums import verify
from executors.checkpoint.entries import TEXT
from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.moving import carry_out
from executors.checkpoint.pairing import Origin, Request, Wanted
from executors.checkpoint.pickles import Called, Global, Made, Stored, Value, pickled
from executors.checkpoint.source import read_source
from executors.checkpoint.tensors import SourceTensor
from executors.checkpoint.torch_archive import archive_of
from executors.checkpoint.torch_outputs import distributed_outputs, stored_once
from ir.slicing import Grid, replicated_slices, whole_slicing
from tests.executors.checkpoint.files import BFLOAT16, Arrays
from tests.executors.checkpoint.moves import MEMORY_BYTES, move, planned, saved, slicing

pytestmark = pytest.mark.fast

OLD = slicing({"w": Grid((4,), ((0,), ())), "v": Grid((2, 2), ((1,), ()))})
NEW = slicing({"w": Grid((2, 2), ((0,), (1,))), "v": Grid((2, 2), ((), (0,)))})
WHOLE: Arrays = {
    "w": np.random.default_rng(1).standard_normal((24, 32), dtype=np.float32),
    "v": np.random.default_rng(2).standard_normal((8, 6)).astype(BFLOAT16),
    "step": np.array(12),
}


@pytest.fixture
def source(folder: Path) -> Path:
    return saved(folder / "in", WHOLE, OLD, ".safetensors")


def digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def quiet(done: int, total: int) -> None:
    del done, total


def test_every_archive_is_sound_and_holds_its_own_checksums(folder: Path, source: Path) -> None:
    todo = planned(source, OLD, Request(NEW), "distcp")
    carry_out(todo, folder / "out", memory_bytes=MEMORY_BYTES, report=quiet)
    for output in todo.outputs[:-1]:
        data = (folder / "out" / output.file.path).read_bytes()
        starts = [at for at, frame in output.frames if frame.startswith(b"PK\x03\x04")]
        for begin, end in zip(starts, [*starts[1:], len(data)], strict=True):
            with zipfile.ZipFile(io.BytesIO(data[begin:end])) as archive:
                assert archive.testzip() is None
                assert archive.read("archive/data/0") in data
    assert verify(read_source(folder / "out"), quiet) > 0


def test_each_part_is_written_once_and_the_work_is_shared(source: Path) -> None:
    todo = planned(source, OLD, Request(NEW), "distcp")
    files = [output.file for output in todo.outputs[:-1]]
    written = [sum(entry.nbytes for entry in file.entries.values()) for file in files]
    assert sum(written) == sum(array.nbytes for array in WHOLE.values())
    assert max(written) - min(written) <= WHOLE["v"].nbytes


class Stopped(BaseException):
    """As a kill: nothing is cleaned up."""


@pytest.mark.parametrize("calls", range(1, 12, 2))
def test_a_stopped_move_goes_on_to_the_same_bytes(
    folder: Path, source: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = calls

    def stop(done: int, total: int) -> None:
        del done, total
        nonlocal left
        left -= 1
        if not left:
            raise Stopped

    monkeypatch.setattr(moving, "MOST_TILE_BYTES", 256)
    todo = planned(source, OLD, Request(NEW), "distcp")
    with pytest.raises(Stopped):
        carry_out(todo, folder / "out", memory_bytes=MEMORY_BYTES, report=stop, note_bytes=256)
    assert not (folder / "out").exists()
    again = carry_out(todo, folder / "out", memory_bytes=MEMORY_BYTES, report=quiet)
    assert again.resumed_bytes > 0
    move(source, OLD, Request(NEW), folder / "calm", "distcp")
    assert digests(folder / "out") == digests(folder / "calm")


def test_damage_shows_in_the_checksums(folder: Path, source: Path) -> None:
    move(source, OLD, Request(NEW), folder / "out", "distcp")
    found = read_source(folder / "out")
    place = found.chunked["w"].places[0]
    data = bytearray(place.file.path.read_bytes())
    data[place.entry.segments[0].offset] ^= 1
    place.file.path.write_bytes(data)
    with pytest.raises(CheckpointError, match="'w' is damaged"):
        verify(found, quiet)


def test_a_tensor_beyond_four_gigabytes_has_wide_numbers(tmp_path: Path) -> None:
    nbytes = 2**32 + 24
    archive = archive_of(b"description", nbytes)
    with (tmp_path / "file").open("wb") as file:
        file.truncate(archive.nbytes)  # a hole, which takes no room
        for at, frame in archive.frames:
            file.seek(at)
            file.write(frame)
    with zipfile.ZipFile(tmp_path / "file") as found:
        assert found.getinfo("archive/data/0").file_size == nbytes
        assert found.read("archive/data.pkl") == b"description"
        with found.open("archive/data/0") as content:
            assert content.read(3) == bytes(3)


def test_a_type_that_torch_lacks_is_refused() -> None:
    slices = replicated_slices((4,), (0,))
    tensor = SourceTensor("note", TEXT, slices, ())
    wanted = (Wanted("note", TEXT, slices, (Origin(tensor, ((0, 4),), (0,), (0,)),)),)
    with pytest.raises(CheckpointError, match="torch has no type text"):
        distributed_outputs(stored_once(wanted, 1), 1)


def test_stages_with_different_parts_of_a_tensor_write_it_once(source: Path) -> None:
    grids = (Grid((2,), ((0,), ())), Grid((4,), ((), (0,)), 2))
    todo = planned(source, OLD, Request(slicing({"w": grids})), "distcp")
    (tensor,) = (each for each in todo.wanted if each.name == "w")
    assert tensor.slices.ranks == ((0,), (1,))


def test_ranks_that_lack_a_part_are_refused(source: Path) -> None:
    with pytest.raises(CheckpointError, match="would be on no rank"):
        planned(source, OLD, Request(like=(0, 1)), "distcp")


def test_a_checkpoint_of_torch_becomes_one_of_other_parts(folder: Path, source: Path) -> None:
    move(source, OLD, Request(NEW), folder / "first", "distcp")
    move(folder / "first", whole_slicing(), Request(OLD), folder / "second", "distcp")
    boxes = read_source(folder / "second").chunked["w"].boxes
    assert [box[0] for box in boxes] == [(0, 6), (6, 12), (12, 18), (18, 24)]


def test_a_pickle_says_what_it_was_made_of() -> None:
    names = Global("collections", "OrderedDict")
    state: Value = {"a": (1, 2**40, -3), "b": [None, True, "a"]}
    value = Made(Global("types", "SimpleNamespace"), {"a": Called(names, ()), "b": state})
    codes = [(code.name, argument) for code, argument, _ in pickletools.genops(pickled(value))]
    assert ("GLOBAL", "collections OrderedDict") in codes
    assert sum(code == "BINUNICODE" and argument == "a" for code, argument in codes) == 1
    assert ("LONG1", 2**40) in codes
    stored: Any = [code.name for code, _, _ in pickletools.genops(pickled(Stored("x")))]
    assert stored == ["PROTO", "BINUNICODE", "BINPUT", "BINPERSID", "STOP"]
