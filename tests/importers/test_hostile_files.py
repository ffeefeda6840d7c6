"""Files that are no model: one clear error each, with what, where and how to mend it."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.onnx import import_onnx
from tests.importers.onnx_models import mlp, saved


def refusal(path: Path) -> ModelError:
    """The error for a file, complete."""
    with pytest.raises(ModelError) as caught:
        import_onnx(path, {"batch": 2})
    error = caught.value
    assert error.what
    assert error.where
    assert error.fix
    assert str(error) == f"{error.what}\n  at:  {error.where}\n  fix: {error.fix}"
    return error


def written(folder: Path, data: bytes, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    data = mlp().SerializeToString()
    assert "complete" in refusal(written(tmp_path, data[: len(data) // 2])).what


def test_a_text_file_is_refused(tmp_path: Path) -> None:
    assert "model.onnx" in refusal(written(tmp_path, b"batch: 4\nlayers: 3\n")).what


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert "empty" in refusal(written(tmp_path, b"")).what


def test_a_message_without_graph_is_refused(tmp_path: Path) -> None:
    assert "no ONNX graph" in refusal(written(tmp_path, b"\x08\x0a")).what


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "nowhere.onnx").what


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "folder" in refusal(tmp_path).what


def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    assert "b.onnx" in refusal(tmp_path / "a\0b.onnx").where


def test_a_device_is_refused() -> None:
    assert "regular file" in refusal(Path("/dev/null")).what


def test_a_corrupt_gzip_file_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(mlp().SerializeToString(), mtime=0))
    packed[len(packed) // 2] ^= 0xFF
    assert "gzip" in refusal(written(tmp_path, bytes(packed), "model.onnx.gz")).what


def test_a_truncated_gzip_file_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(mlp().SerializeToString(), mtime=0)
    assert "gzip" in refusal(written(tmp_path, packed[:-20], "model.onnx.gz")).what


def test_a_gzip_bomb_is_given_up_early(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(80 * 2**20), compresslevel=1, mtime=0)
    assert "unpacks to more than" in refusal(written(tmp_path, bomb, "model.onnx.gz")).what


def test_a_gzip_bomb_is_given_up_by_what_was_read_of_it_not_by_its_size(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(2**21)  # makes the file large, behind the bomb
    bomb = gzip.compress(bytes(80 * 2**20) + noise, compresslevel=1, mtime=0)
    assert "unpacks to more than" in refusal(written(tmp_path, bomb, "model.onnx.gz")).what


def test_a_gzip_file_is_known_by_its_content_not_by_its_name(tmp_path: Path) -> None:
    packed = gzip.compress(mlp().SerializeToString(), mtime=0)
    assert import_onnx(written(tmp_path, packed), {"batch": 2}).name == "model"


@pytest.mark.parametrize("opset", [0, 1, 6, 999])
def test_an_opset_out_of_range_is_refused(tmp_path: Path, opset: int) -> None:
    made = mlp()
    made.opset_import[0].version = opset
    error = refusal(saved(tmp_path, made))
    assert f"opset {opset}" in error.what
    assert "7 to" in error.what


def test_a_model_that_names_no_opset_is_refused(tmp_path: Path) -> None:
    made = mlp()
    del made.opset_import[:]
    assert "no opset" in refusal(saved(tmp_path, made)).what
