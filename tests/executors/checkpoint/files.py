"""Checkpoint files written and read a second way: by protobuf's own library, and by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_SAFE = {
    "float32": "F32", "float16": "F16", "float64": "F64", "bfloat16": "BF16", "int64": "I64",
    "int32": "I32", "uint8": "U8", "int8": "I8", "bool": "BOOL",
}  # fmt: skip
_MINDSPORE = {
    "float32": "Float32", "float16": "Float16", "float64": "Float64", "bfloat16": "BFloat16",
    "int64": "Int64", "int32": "Int32", "uint8": "UInt8", "int8": "Int8", "bool": "Bool",
}  # fmt: skip


def _checkpoint_type() -> Any:
    """`Checkpoint` as MindSpore's descriptor declares it."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="checkpoint.proto", syntax="proto2")
    tensor = file.message_type.add(name="TensorProto")
    tensor.field.add(name="dims", number=1, label=field.LABEL_REPEATED, type=field.TYPE_INT64)
    tensor.field.add(
        name="tensor_type", number=2, label=field.LABEL_REQUIRED, type=field.TYPE_STRING
    )
    tensor.field.add(
        name="tensor_content", number=3, label=field.LABEL_REQUIRED, type=field.TYPE_BYTES
    )
    checkpoint = file.message_type.add(name="Checkpoint")
    checkpoint.field.add(
        name="value", number=1, label=field.LABEL_REPEATED, type=field.TYPE_MESSAGE,
        type_name=".Checkpoint.Value",
    )  # fmt: skip
    value = checkpoint.nested_type.add(name="Value")
    value.field.add(name="tag", number=1, label=field.LABEL_REQUIRED, type=field.TYPE_STRING)
    value.field.add(
        name="tensor", number=2, label=field.LABEL_OPTIONAL, type=field.TYPE_MESSAGE,
        type_name=".TensorProto",
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Checkpoint"))


CHECKPOINT = _checkpoint_type()


def write(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = ckpt_bytes(arrays) if path.suffix == ".ckpt" else safetensors_bytes(arrays)
    path.write_bytes(text)


def ckpt_bytes(arrays: Mapping[str, NDArray[Any]], pieces: int = 1) -> bytes:
    """`pieces` values of each tensor, as MindSpore writes large ones."""
    message = CHECKPOINT()
    for name, array in arrays.items():
        content = array.tobytes()
        step = max(1, -(-len(content) // pieces))
        for start in range(0, max(len(content), 1), step):
            value = message.value.add(tag=name)
            value.tensor.dims.extend(array.shape)
            value.tensor.tensor_type = _MINDSPORE[array.dtype.name]
            value.tensor.tensor_content = content[start : start + step]
    out: bytes = message.SerializeToString()
    return out


def safetensors_bytes(
    arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    body = b""
    for name, array in arrays.items():
        content = array.tobytes()
        header[name] = {
            "dtype": _SAFE[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(content)],
        }
        body += content
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def read(path: Path) -> Arrays:
    data = path.read_bytes()
    return _read_ckpt(data) if path.suffix == ".ckpt" else _read_safetensors(data)


def _read_ckpt(data: bytes) -> Arrays:
    message = CHECKPOINT.FromString(data)
    content: dict[str, bytes] = {}
    kinds: dict[str, tuple[str, tuple[int, ...]]] = {}
    for value in message.value:
        content[value.tag] = content.get(value.tag, b"") + value.tensor.tensor_content
        kinds[value.tag] = (value.tensor.tensor_type, tuple(value.tensor.dims))
    names = {theirs: ours for ours, theirs in _MINDSPORE.items()}
    return {
        tag: np.frombuffer(content[tag], _dtype(names[kind])).reshape(dims)
        for tag, (kind, dims) in kinds.items()
    }


def _read_safetensors(data: bytes) -> Arrays:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    names = {theirs: ours for ours, theirs in _SAFE.items()}
    out = {}
    for name, item in header.items():
        begin, end = (8 + length + offset for offset in item["data_offsets"])
        array = np.frombuffer(data[begin:end], _dtype(names[item["dtype"]]))
        out[name] = array.reshape(item["shape"])
    return out


def _dtype(name: str) -> np.dtype[Any]:
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def write_ranks(folder: Path, ranks: Sequence[Mapping[str, NDArray[Any]]], suffix: str) -> Path:
    for rank, arrays in enumerate(ranks):
        write(folder / f"rank_{rank}" / f"checkpoint{suffix}", arrays)
    return folder


def read_ranks(folder: Path) -> list[Arrays]:
    folders = sorted(folder.glob("rank_*"), key=lambda p: int(p.name[5:]))
    if not folders:
        return [read(next(p for p in folder.iterdir() if p.suffix != ".json"))]
    return [read(next(p.iterdir())) for p in folders]


def assert_same(found: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]]) -> None:
    """Names, types, dims and bits."""
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name
