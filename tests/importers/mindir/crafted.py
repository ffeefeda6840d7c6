"""MindIR files written message by message, also wrong ones."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from importers.errors import ModelError
from importers.mindir.messages import MESSAGES
from importers.mindir.reading import import_mindir
from ir.wire import Wire, varint


def chunk(number: int, payload: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | Wire.BYTES) + varint(len(payload)) + payload


def message(kind: str, **fields: Any) -> bytes:
    """A message of a declared type; nested ones are bytes already."""
    encoded = b""
    for name, value in fields.items():
        declared = MESSAGES[kind][name]
        for each in value if isinstance(value, list) else [value]:
            tag = varint(declared.number << 3 | declared.wire)
            if declared.wire is Wire.VARINT:
                encoded += tag + varint(each)
            elif declared.wire is Wire.BYTES:
                encoded += chunk(declared.number, each.encode() if isinstance(each, str) else each)
            else:
                encoded += tag + struct.pack("<f" if declared.wire is Wire.FIXED32 else "<d", each)
    return encoded


def tensor(*dims: int, code: int = 1, **fields: Any) -> bytes:
    return message("TensorProto", dims=list(dims), data_type=code, **fields)


def shape(*dims: int, code: int = 1) -> bytes:
    return message("AttributeProto", name="shape", type=19, tensors=tensor(*dims, code=code))


def node(kind: str, inputs: list[str], output: str, *attributes: bytes, name: str = "") -> bytes:
    return message(
        "NodeProto", input=inputs, output=output, op_type=kind, attribute=list(attributes),
        domain=name or f"Default/{output}-op0",
    )  # fmt: skip


def function(name: str, nodes: list[bytes], inputs: list[str], output: str) -> bytes:
    values = [message("ValueInfoProto", name=each, tensor=tensor(4, 8)) for each in inputs]
    result = message("ValueInfoProto", name=output)
    return message("GraphProto", name=name, node=nodes, input=values, output=result)


def model(nodes: list[bytes], output: str = "y", **fields: Any) -> bytes:
    """A model of one graph from `x`, 4 by 8 numbers, to one result."""
    primitives = [
        message("PrimitiveProto", name=f"{each}:1", op_type=each)
        for each in ("ReLU", "Add", "MatMul", "MakeTuple", "TupleGetItem", "Twist")
    ]
    graph = function("g", nodes, ["x"], output)
    given = {"producer_name": "MindSpore", "graph": graph, "primitives": primitives} | fields
    return message("ModelProto", **given)


def written(folder: Path, data: bytes) -> Path:
    path = folder / "model.mindir"
    path.write_bytes(data)
    return path


def refused(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        import_mindir(path)
    assert caught.value.what
    assert caught.value.where
    assert caught.value.fix
    return caught.value
