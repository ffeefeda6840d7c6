"""The safetensors format: eight bytes of length, a header in JSON, the bytes of all tensors.

Read and written here, not by the `safetensors` package: tensors are moved in parts between two
files within a given memory, and the package hands out and takes whole tensors.

Source: safetensors 0.8, "Format" of its README.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from executors.checkpoint.entries import (
    LARGEST_SIZE,
    CheckpointFile,
    Entry,
    Segment,
    entry_bytes,
)
from executors.checkpoint.errors import CheckpointError

MOST_HEADER_BYTES = 100_000_000
"""The limit of the package itself."""
_ALIGNMENT = 8
_DTYPES = MappingProxyType(
    {
        "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16",
        "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32",
        "F64": "float64", "I64": "int64", "U64": "uint64", "F8_E4M3": "float8e4m3fn",
        "F8_E5M2": "float8e5m2", "F8_E8M0": "float8e8m0", "F8_E4M3FNUZ": "float8e4m3fnuz",
        "F8_E5M2FNUZ": "float8e5m2fnuz", "C64": "complex64",
    }
)  # fmt: skip
_NAMES = MappingProxyType({dtype: name for name, dtype in _DTYPES.items()})
_FIX = "write the file again; this one is damaged or no safetensors file"


def read_safetensors(path: Path) -> CheckpointFile:
    """What lies where in a file; nothing but the header is read.

    Raises:
        CheckpointError: the file is none, or its header does not fit its length.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or length > min(MOST_HEADER_BYTES, size - 8):
            what = f"a header of {length} bytes in a file of {size}"
            raise CheckpointError(what, str(path), _FIX)
        text = file.read(length)
    header = _parsed(text, path)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError("__metadata__ is no table of texts", str(path), _FIX)
    entries = [_entry(name, item, 8 + length, path) for name, item in header.items()]
    _check_cover(entries, 8 + length, size, path)
    return CheckpointFile(path, "safetensors", size, {e.name: e for e in entries}, metadata)


def _parsed(text: bytes, path: Path) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise CheckpointError("a name occurs twice in the header", str(path), _FIX)
        return found

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the header is not JSON: {error}", str(path), _FIX) from None
    if not isinstance(header, dict):
        raise CheckpointError("the header is no JSON object", str(path), _FIX)
    return header


def _entry(name: str, item: Any, base: int, path: Path) -> Entry:
    place = f"{path}, tensor {name!r}"
    try:
        dtype, dims, (begin, end) = _DTYPES[item["dtype"]], item["shape"], item["data_offsets"]
    except KeyError as error:
        what = f"{error.args[0]!r} is missing, or is no type that is known"
        raise CheckpointError(what, place, _FIX) from None
    except (TypeError, ValueError):
        raise CheckpointError("the entry is not as it should be", place, _FIX) from None
    numbers = [*dims, begin, end] if isinstance(dims, list) else [None]
    if any(type(n) is not int or not 0 <= n < LARGEST_SIZE for n in numbers):
        raise CheckpointError("shape and offsets must be integers from 0", place, _FIX)
    if math.prod(dims) >= LARGEST_SIZE or end - begin != entry_bytes(dtype, tuple(dims)):
        what = f"{end - begin} bytes for shape {dims} of {dtype}"
        raise CheckpointError(what, place, _FIX)
    return Entry(name, dtype, tuple(dims), (Segment(base + begin, 0, end - begin),))


def _check_cover(entries: Sequence[Entry], base: int, size: int, path: Path) -> None:
    """The tensors must tile the rest of the file, as the format demands."""
    position = base
    for entry in sorted(entries, key=lambda e: (e.segments[0].offset, e.segments[0].nbytes)):
        if entry.segments[0].offset != position:
            what = f"tensor {entry.name!r} begins at byte {entry.segments[0].offset}"
            raise CheckpointError(f"{what}, not at {position}", str(path), _FIX)
        position += entry.nbytes
    if position != size:
        what = f"the tensors end at byte {position}, the file at {size}"
        raise CheckpointError(what, str(path), "copy the file again; it was cut short or continued")


def laid_out_safetensors(
    path: Path,
    tensors: Sequence[tuple[str, str, tuple[int, ...]]],
    metadata: Mapping[str, str],
) -> tuple[CheckpointFile, tuple[tuple[int, bytes], ...]]:
    """Where the tensors of a new file will lie, and the bytes that are known before any tensor.

    Larger elements come first, so that every tensor begins at a multiple of its element.

    Args:
        path: of the file.
        tensors: name, element type and dims of each.
        metadata: texts for the header.

    Raises:
        CheckpointError: the format has no such element type.
    """
    for name, dtype, _ in tensors:
        if dtype not in _NAMES:
            what, fix = f"safetensors has no type {dtype}", "write --format ckpt"
            raise CheckpointError(what, f"tensor {name!r}", fix)
    order = sorted(tensors, key=lambda t: -entry_bytes(t[1], (1,)))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    begin, places = 0, []
    for name, dtype, dims in order:
        end = begin + entry_bytes(dtype, dims)
        header[name] = {"dtype": _NAMES[dtype], "shape": list(dims), "data_offsets": [begin, end]}
        places.append((name, dtype, dims, begin))
        begin = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    if len(text) > MOST_HEADER_BYTES:
        raise CheckpointError("more tensors than a safetensors header holds", str(path))
    base = 8 + len(text)
    entries = {
        name: Entry(name, dtype, dims, (Segment(base + at, 0, entry_bytes(dtype, dims)),))
        for name, dtype, dims, at in places
    }
    found = CheckpointFile(path, "safetensors", base + begin, entries, metadata)
    return found, ((0, len(text).to_bytes(8, "little") + text),)
