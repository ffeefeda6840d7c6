"""Numbers that an archive carries, for running a model; planning needs none of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from importers.onnx_values import Array
from importers.onnx_writer import type_code
from importers.torch_export.archive import ZIP_MAGIC, Archive, open_archive
from importers.torch_export.json_text import read_json
from importers.torch_export.pt2_program import ELEMENT_TYPES
from ir.dtypes import dtype_bytes

MAX_BYTES = 2**28
"""A larger array is not read."""
MAX_TOTAL_BYTES = 2**30
"""Nor are those that come after so much."""
_TABLES = (("data/weights/", "_weights_config.json"), ("data/constants/", "_constants_config.json"))


def with_numbers(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model with the numbers of its stored tensors, as far as the file has them raw.

    Raises:
        ModelError: the archive is damaged.
    """
    with path.open("rb") as stream:
        if stream.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
            return model
    filled = onnx.ModelProto()
    filled.CopyFrom(model)
    with open_archive(path) as archive:
        entries, left = _entries(archive), MAX_TOTAL_BYTES
        for proto in filled.graph.initializer:
            left -= _nbytes(proto)
            if left < 0:
                break
            array = _array(archive, entries.get(proto.name), tuple(proto.dims), proto.data_type)
            if array is not None and proto.external_data:
                del proto.external_data[:]
                proto.data_location = onnx.TensorProto.DEFAULT
                proto.raw_data = array.tobytes()
    return filled


def _nbytes(proto: onnx.TensorProto) -> int:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)
    return math.prod(proto.dims) * int(dtype.itemsize)


def _entries(archive: Archive) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name in archive.names:
        for folder, ending in _TABLES:
            if name.startswith(folder) and name.endswith(ending):
                table = read_json(archive.read(name), archive.where(name))["config"]
                found |= {key: {**entry, "folder": folder} for key, entry in table.items()}
    return found


def _array(
    archive: Archive, entry: Mapping[str, Any] | None, dims: tuple[int, ...], code: int
) -> Array | None:
    """The numbers of one tensor; None where they are pickled, too many, or of other dims."""
    if entry is None or entry.get("use_pickle") or not entry.get("tensor_meta"):
        return None
    meta = entry["tensor_meta"]
    dtype = ELEMENT_TYPES.get(meta["dtype"], "")
    name = entry["folder"] + str(entry["path_name"])
    sizes = tuple(size.get("as_int", -1) for size in meta["sizes"])
    if sizes != dims or not dtype or type_code(dtype) != code or not archive.has(name):
        return None
    if math.prod(dims) * dtype_bytes(dtype) > MAX_BYTES:
        return None
    numbers = onnx.helper.tensor_dtype_to_np_dtype(code)
    raw = np.frombuffer(archive.read(name, MAX_BYTES), dtype=numbers)
    strides = [stride.get("as_int", -1) for stride in meta["strides"]]
    offset = meta["storage_offset"].get("as_int", -1)
    last = offset + sum((d - 1) * s for d, s in zip(dims, strides, strict=True))
    if 0 in dims:
        return np.zeros(dims, numbers)
    if offset < 0 or min(strides, default=0) < 0 or last >= raw.size:
        return None
    steps = [s * raw.itemsize for s in strides]
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(raw[offset:], dims, steps))
