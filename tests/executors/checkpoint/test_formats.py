"""Files are read as they were written, and what is no checkpoint is refused with its place."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from executors.checkpoint import ckpt
from executors.checkpoint.checksums import verify
from executors.checkpoint.ckpt import laid_out_ckpt, read_ckpt
from executors.checkpoint.entries import Entry
from executors.checkpoint.errors import CheckpointError
from executors.checkpoint.pairing import Request
from executors.checkpoint.safetensors import laid_out_safetensors, read_safetensors
from executors.checkpoint.source import read_source
from ir.slicing import whole_slicing
from tests.executors.checkpoint.files import (
    BFLOAT16,
    CHECKPOINT,
    assert_same,
    ckpt_bytes,
    read,
    safetensors_bytes,
)
from tests.executors.checkpoint.moves import move

ARRAYS: dict[str, NDArray[Any]] = {
    "a.weight": np.arange(24, dtype=np.float32).reshape(4, 6),
    "b": np.arange(6).astype(BFLOAT16),
    "step": np.array(3, np.int64),
    "empty": np.zeros((0, 4), np.float16),
}
READERS: dict[str, Callable[[Path], Any]] = {
    "x.ckpt": read_ckpt,
    "x.safetensors": read_safetensors,
}
# Saved by MindSpore 2.10.0: {"w": float32 [[1, 2]], "s": float32 scalar 5, "lr": "ab"}.
FROM_MINDSPORE = bytes.fromhex(
    "0a1c0a01771217080108021207466c6f617433321a080000803f00000040"
    "0a140a0173120f1207466c6f617433321a040000a040"
    "0a170a026c721211080012037374721a086100000062000000"
)


def held(entry: Entry, data: bytes) -> bytes:
    return b"".join(data[s.offset : s.offset + s.nbytes] for s in entry.segments)


@pytest.mark.parametrize("pieces", [1, 3])
def test_mindspore_files_are_read_as_protobuf_reads_them(tmp_path: Path, pieces: int) -> None:
    data = ckpt_bytes(ARRAYS, pieces)
    (tmp_path / "x.ckpt").write_bytes(data)
    found = read_ckpt(tmp_path / "x.ckpt").entries
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert (found[name].dtype, found[name].dims) == (array.dtype.name, array.shape)
        assert held(found[name], data) == array.tobytes()


def test_a_file_of_mindspore_itself_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.ckpt").write_bytes(FROM_MINDSPORE)
    found = read_ckpt(tmp_path / "x.ckpt").entries
    kinds = {name: (each.dtype, each.dims) for name, each in found.items()}
    assert kinds == {"w": ("float32", (1, 2)), "s": ("float32", ()), "lr": ("text", (2,))}
    move(tmp_path / "x.ckpt", whole_slicing(), Request(), tmp_path / "out")
    assert (tmp_path / "out" / "checkpoint.ckpt").read_bytes() == FROM_MINDSPORE


def test_large_tensors_are_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ckpt, "PIECE_BYTES", 40)
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes(ARRAYS))
    move(tmp_path / "x.safetensors", whole_slicing(), Request(), tmp_path / "out", "ckpt", 24)
    path = tmp_path / "out" / "checkpoint.ckpt"
    assert len(CHECKPOINT.FromString(path.read_bytes()).value) == 6
    assert_same(read(path), ARRAYS)
    assert len(read_ckpt(path).entries["a.weight"].segments) == 3


@pytest.mark.parametrize("form", ["ckpt", "safetensors"])
def test_a_file_that_is_laid_out_is_what_protobuf_and_json_write(tmp_path: Path, form: str) -> None:
    (tmp_path / "x.ckpt").write_bytes(ckpt_bytes(ARRAYS))
    move(tmp_path / "x.ckpt", whole_slicing(), Request(), tmp_path / "out", form)
    path = tmp_path / "out" / f"checkpoint.{form}"
    assert_same(read(path), ARRAYS)
    if form == "ckpt":
        assert path.read_bytes() == ckpt_bytes(ARRAYS)


def test_elements_of_safetensors_lie_at_multiples_of_their_size() -> None:
    tensors = [("a", "uint8", (3,)), ("b", "float16", (1,)), ("c", "float64", (2,)),
               ("d", "bool", (1,)), ("e", "float32", (5,))]  # fmt: skip
    file, _ = laid_out_safetensors(Path("x"), tensors, {"format": "pt"})
    for name, dtype, _ in tensors:
        assert file.entries[name].segments[0].offset % np.dtype(dtype).itemsize == 0


def test_mindspores_own_checksum_is_held(tmp_path: Path) -> None:
    data = ckpt_bytes(ARRAYS)
    path = tmp_path / "x.ckpt"
    path.write_bytes(data + b"crc_num" + zlib.crc32(data).to_bytes(10, "big"))
    assert list(read_ckpt(path).entries) == list(ARRAYS)
    assert verify(read_source(path), lambda done, total: None) == len(data) + 17
    path.write_bytes(data + b"crc_num" + (zlib.crc32(data) ^ 1).to_bytes(10, "big"))
    with pytest.raises(CheckpointError, match="the file is damaged"):
        verify(read_source(path), lambda done, total: None)


def _header(changed: Callable[[dict[str, Any]], None]) -> bytes:
    data = safetensors_bytes({"a": np.arange(4, dtype=np.float32), "b": np.arange(2.0)})
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    changed(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a header of 0 bytes in a file of 0"),
        (b"\xff" * 8 + b"{}", "a header of 18446744073709551615 bytes"),
        ((2).to_bytes(8, "little") + b"[]", "no JSON object"),
        ((2).to_bytes(8, "little") + b"{x", "not JSON"),
        ((20).to_bytes(8, "little") + b"[" * 20, "not JSON"),
        (b'\x12\0\0\0\0\0\0\0{"a":{}, "a": {} }', "a name occurs twice"),
        (_header(lambda h: h["a"].update(dtype="F7")), "'F7' is missing, or is no type"),
        (_header(lambda h: h["a"].update(shape=[5])), "16 bytes for shape [5]"),
        (_header(lambda h: h["a"].update(shape=[-4])), "integers from 0"),
        (_header(lambda h: h["a"].update(shape=[2**62, 2**62])), "integers from 0"),
        (_header(lambda h: h["a"].update(shape=[2**40, 2**40])), "16 bytes for shape"),
        (_header(lambda h: h["a"].update(data_offsets=[0])), "not as it should be"),
        (_header(lambda h: h["a"].update(data_offsets=[16, 32])), "begins at byte"),
        (_header(lambda h: h["b"].update(data_offsets=[0, 16])), "begins at byte"),
        (_header(lambda h: h.update(__metadata__=3)), "no table of texts"),
        (_header(lambda h: h.update(c=3)), "not as it should be"),
        (safetensors_bytes(ARRAYS)[:-1], "the tensors end at byte"),
        (safetensors_bytes(ARRAYS) + b"x", "the tensors end at byte"),
    ],
)
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        read_safetensors(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "fix:" in str(caught.value)


def _message(**fields: Any) -> bytes:
    message = CHECKPOINT()
    value = message.value.add(tag=fields.get("tag", "a"))
    value.tensor.dims.extend(fields.get("dims", (2,)))
    value.tensor.tensor_type = fields.get("kind", "Float32")
    value.tensor.tensor_content = fields.get("content", b"12345678")
    out: bytes = message.SerializeToString()
    return out


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x12\x01x", "something else than a value"),
        (b"\x0a\x00", "a value without a tag"),
        (b"\x0a\xff\xff", "inside an integer"),
        (ckpt_bytes(ARRAYS)[:-40], "a field of"),
        (_message(kind="Quaternion"), "unknown type 'Quaternion'"),
        (_message(dims=(3,)), "8 bytes for dims [3]"),
        (_message(dims=(-1,)), "a dim is -1"),
        (_message(dims=(2**40, 2**40)), "no content of bytes"),
        (_message(dims=(1,) * 65), "more than 64 dims"),
        (_message() + _message(tag="b") + _message(), "'a' occurs twice"),
        (_message() + _message(dims=(3,)), "'a' occurs twice"),
        (b"\x0a\x07\x0a\x01a\x1a\x02\x0a\x00", "'a' is a hash table"),
        (b"\x0a\x05\x0a\x01a\x12\x00", "lacks its type"),
        (b"\x0a\x04\x0a\x02\xff\xfe", "not UTF-8"),
    ],
)
def test_what_is_no_checkpoint_of_mindspore_is_refused(
    tmp_path: Path, data: bytes, message: str
) -> None:
    path = tmp_path / "x.ckpt"
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        read_ckpt(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "fix:" in str(caught.value)


@pytest.mark.parametrize("name", READERS)
@given(place=st.integers(0, 10**6), value=st.integers(0, 255), kept=st.integers(0, 10**6))
@settings(max_examples=150)
def test_any_damage_is_read_or_refused_but_never_more(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, value: int, kept: int
) -> None:
    sound = ckpt_bytes(ARRAYS) if name.endswith("ckpt") else safetensors_bytes(ARRAYS)
    data = bytearray(sound)
    data[place % len(data)] = value
    if kept % 3:
        del data[kept % len(data) :]
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(data)
    try:
        found = READERS[name](path)
    except CheckpointError:
        return
    for entry in found.entries.values():
        assert all(0 <= s.offset <= s.offset + s.nbytes <= len(data) for s in entry.segments)
        assert sum(s.nbytes for s in entry.segments) == entry.nbytes


def test_a_type_that_a_form_lacks_is_refused() -> None:
    with pytest.raises(CheckpointError, match="safetensors has no type complex128"):
        laid_out_safetensors(Path("x"), [("a", "complex128", (2,))], {})
    with pytest.raises(CheckpointError, match=r"a \.ckpt has no type float8e5m2"):
        laid_out_ckpt(Path("x"), [("a", "float8e5m2", (2,))])
