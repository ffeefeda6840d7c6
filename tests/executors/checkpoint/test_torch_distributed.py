"""Torch's distributed checkpoints are read without torch, and nothing in them is run."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.pairing import Rename, Request
from executors.checkpoint.source import read_source
from executors.checkpoint.tensors import source_tensors
from ir.slicing import Grid, whole_slicing
from tests.executors.checkpoint.files import BFLOAT16, assert_same, read_ranks
from tests.executors.checkpoint.moves import cut, move, slicing

pytestmark = pytest.mark.fast

SAVED = Path(__file__).parents[2] / "data" / "torch_distributed" / "checkpoint"
WHOLE = np.arange(35, dtype=np.float32).reshape(7, 5)
WANTED: dict[str, Any] = {
    "model.w": WHOLE, "model.v": (WHOLE * 2).astype(BFLOAT16), "model.b": np.arange(4),
    "lr": np.array(0.5, np.float32),
}  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAVED, tmp_path / "in"))


def test_all_tensors_become_one_file(tmp_path: Path) -> None:
    move(SAVED, whole_slicing(), Request(), tmp_path / "out", "safetensors", 40)
    (found,) = read_ranks(tmp_path / "out")
    assert_same(found, WANTED)


def test_slices_for_a_layout_with_other_names(tmp_path: Path) -> None:
    target = slicing({"w": Grid((5,), ((), (0,))), "model.v": Grid((5,), ((), (0,)))})
    request = Request(target, renames=(Rename(("model.w",), ("w",)),))
    move(SAVED, whole_slicing(), request, tmp_path / "out", "ckpt")
    renamed = {"w" if name == "model.w" else name: array for name, array in WANTED.items()}
    for found, wanted in zip(read_ranks(tmp_path / "out"), cut(renamed, target), strict=True):
        assert_same(found, wanted)


def test_a_layout_of_the_source_is_refused() -> None:
    with pytest.raises(CheckpointError, match="says itself how its tensors lie"):
        source_tensors(read_source(SAVED), slicing({"model.w": Grid((2,), ((0,), ()))}))


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run",)


def test_nothing_in_a_pickle_is_run(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError, match=r"builtins\.print is not known"):
        read_source(copy)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (".metadata", b"__1_0.distcp", b"../_0.distcp"),
        (".metadata", b"__1_0.distcp", b"__7_0.distcp"),
        (".metadata", b"float32", b"float31"),
        (".metadata", b"state_dict_metadata", b"state_dict_mexadata"),
        ("__0_0.distcp", b"PK\x03\x04", b"PK\x03\x05"),
        ("__0_0.distcp", b"PK\x01\x02", b"PK\x01\x03"),
        ("__0_0.distcp", b"_rebuild_tensor_v2", b"_rebuild_tensor_v9"),
    ],
)
def test_damage_is_one_clear_error(copy: Path, file: str, old: bytes, new: bytes) -> None:
    data = (copy / file).read_bytes()
    assert old in data
    (copy / file).write_bytes(data.replace(old, new))
    with pytest.raises(CheckpointError, match="fix:"):
        read_source(copy)


@pytest.mark.parametrize("kept", [0, 10, 1000, 3000])
def test_a_file_that_was_cut_short_is_an_error(copy: Path, kept: int) -> None:
    for name in (".metadata", "__1_0.distcp"):
        other = Path(shutil.copytree(copy, copy.parent / f"{name}{kept}"))
        data = (other / name).read_bytes()
        (other / name).write_bytes(data[: min(kept, len(data) - 1)])
        with pytest.raises(CheckpointError, match="fix:"):
            read_source(other)
