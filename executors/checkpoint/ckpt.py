"""MindSpore's checkpoint format: one Protocol Buffers message that holds every tensor.

`Checkpoint` repeats `value` (1) with `tag` (1) and `tensor` (2) or `maptensor` (3); a tensor has
`dims` (1), `tensor_type` (2) and `tensor_content` (3). A large tensor is several values in a row
with the same tag, each with the dims of the whole. A file may end in `crc_num` and ten bytes.

Source: MindSpore 2.10.0, `train/checkpoint_pb2.py` and `train/serialization.py`.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from executors.checkpoint.entries import (
    LARGEST_SIZE,
    TEXT,
    CheckpointFile,
    Entry,
    Segment,
    entry_bytes,
)
from executors.checkpoint.errors import CheckpointError
from ir.wire import Data, Field, Wire, WireError, read_fields, read_varint, signed, varint

VALUE, TAG, TENSOR, MAP_TENSOR = 1, 1, 2, 3
DIMS, TYPE, CONTENT = 1, 2, 3
PIECE_BYTES = 512 * 2**20
"""Most bytes of a tensor in one value, as MindSpore writes them."""
CHECKSUM_TAG = b"crc_num"
CHECKSUM_BYTES = len(CHECKSUM_TAG) + 10
_MOST_DIMS, _MOST_VALUES, _LONGEST_TAG = 64, 2**22, 2**16
_DTYPES = MappingProxyType(
    {
        "Int8": "int8", "UInt8": "uint8", "Int16": "int16", "UInt16": "uint16", "Int32": "int32",
        "UInt32": "uint32", "Int64": "int64", "UInt64": "uint64", "Float16": "float16",
        "Float32": "float32", "Float64": "float64", "Bool": "bool", "BFloat16": "bfloat16",
        "Complex64": "complex64", "Complex128": "complex128", "str": TEXT,
    }
)  # fmt: skip
_NAMES = MappingProxyType({dtype: name for name, dtype in _DTYPES.items()})
_FIX = "save the checkpoint again; this file is damaged, encrypted or of another form"


def read_ckpt(path: Path) -> CheckpointFile:
    """What lies where in a file; the contents of tensors are passed over.

    Raises:
        CheckpointError: the file is none, or holds what no tensor can be.
    """
    size = path.stat().st_size
    if not size:
        return CheckpointFile(path, "ckpt", 0, {})
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        end = size - CHECKSUM_BYTES if has_checksum(data) else size
        try:
            entries = _entries(data, end)
        except WireError as error:
            place = f"{path}, byte {error.offset}"
            raise CheckpointError(f"not in the form .ckpt: {error.what}", place, _FIX) from None
        except CheckpointError as error:
            raise CheckpointError(str(error), str(path), _FIX) from None
    return CheckpointFile(path, "ckpt", size, entries)


def has_checksum(data: Data) -> bool:
    """Whether a file ends in MindSpore's own checksum."""
    return len(data) >= CHECKSUM_BYTES and data[-CHECKSUM_BYTES:][:7] == CHECKSUM_TAG


def _entries(data: Data, end: int) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    last = ""
    for count, value in enumerate(read_fields(data, 0, end)):
        if value.number != VALUE or value.wire != Wire.BYTES or count > _MOST_VALUES:
            raise WireError("something else than a value of a checkpoint", value.offset)
        tag, dtype, dims, content = _value(data, value)
        begun = found.get(tag)
        if begun is None:
            found[tag] = Entry(tag, dtype, dims, (Segment(content.start, 0, _length(content)),))
        elif tag != last or (begun.dtype, begun.dims) != (dtype, dims):
            raise WireError(f"tensor {tag!r} occurs twice", value.offset)
        else:
            start = sum(s.nbytes for s in begun.segments)
            segment = Segment(content.start, start, _length(content))
            found[tag] = Entry(tag, dtype, dims, (*begun.segments, segment))
        last = tag
    return {name: _checked(entry) for name, entry in found.items()}


def _length(field: Field) -> int:
    return field.end - field.start


def _checked(entry: Entry) -> Entry:
    """The tensor, if it has as many bytes as its dims say; dims of `[0]` with content: a scalar."""
    held = sum(segment.nbytes for segment in entry.segments)
    dims = () if entry.dims == (0,) and held else entry.dims
    if entry.dtype == TEXT:
        dims = (held // 4,)
    if held != entry_bytes(entry.dtype, dims):
        what = f"tensor {entry.name!r}: {held} bytes for dims {list(dims)} of {entry.dtype}"
        raise CheckpointError(what)
    return Entry(entry.name, entry.dtype, dims, entry.segments)


def _value(data: Data, value: Field) -> tuple[str, str, tuple[int, ...], Field]:
    fields = _single(data, value, {TAG: "tag", TENSOR: "tensor", MAP_TENSOR: "maptensor"})
    if TAG not in fields or _length(fields[TAG]) > _LONGEST_TAG:
        raise WireError("a value without a tag", value.offset)
    tag = _text(data, fields[TAG])
    if TENSOR not in fields:
        raise WireError(f"{tag!r} is a hash table, which has no slices", value.offset)
    dims: list[int] = []
    inner: dict[int, Field] = {}
    for part in read_fields(data, fields[TENSOR].start, fields[TENSOR].end):
        if part.number == DIMS:
            dims += _integers(data, part)
        elif part.number in inner:
            raise WireError(f"a part of {tag!r} occurs twice", part.offset)
        inner[part.number] = part
        if len(dims) > _MOST_DIMS:
            raise WireError(f"{tag!r} has more than {_MOST_DIMS} dims", part.offset)
    if inner.get(TYPE, value).number != TYPE or inner.get(CONTENT, value).number != CONTENT:
        raise WireError(f"{tag!r} lacks its type or its content", value.offset)
    kind = _text(data, inner[TYPE])
    if kind not in _DTYPES:
        raise WireError(f"{tag!r} has elements of the unknown type {kind[:40]!r}", value.offset)
    if math.prod(dims) >= LARGEST_SIZE or inner[CONTENT].wire != Wire.BYTES:
        raise WireError(f"{tag!r} has no content of bytes", value.offset)
    return tag, _DTYPES[kind], tuple(dims), inner[CONTENT]


def _single(data: Data, message: Field, names: dict[int, str]) -> dict[int, Field]:
    """Fields that hold bytes, each at most once."""
    found: dict[int, Field] = {}
    for part in read_fields(data, message.start, message.end):
        if part.number in names:
            if part.number in found or part.wire != Wire.BYTES:
                raise WireError(f"{names[part.number]} is not one string of bytes", part.offset)
            found[part.number] = part
    return found


def _text(data: Data, field: Field) -> str:
    if field.wire != Wire.BYTES or _length(field) > _LONGEST_TAG:
        raise WireError("a name that is no text", field.offset)
    try:
        return bytes(data[field.start : field.end]).decode("utf-8")
    except UnicodeDecodeError:
        raise WireError("a name is not UTF-8", field.offset) from None


def _integers(data: Data, field: Field) -> list[int]:
    """Dims, packed or not."""
    if field.wire == Wire.VARINT:
        return [_dim(field.value, field)]
    if field.wire != Wire.BYTES or _length(field) > 10 * _MOST_DIMS:
        raise WireError("dims that are no integers", field.offset)
    values, position = [], field.start
    while position < field.end:
        value, position = read_varint(data, position, field.end)
        values.append(_dim(value, field))
    return values


def _dim(value: int, field: Field) -> int:
    size = signed(value, -LARGEST_SIZE, LARGEST_SIZE, "a dim", "its range", field.offset)
    if size < 0:
        raise WireError(f"a dim is {size}", field.offset)
    return size


def laid_out_ckpt(
    path: Path, tensors: Sequence[tuple[str, str, tuple[int, ...]]]
) -> tuple[CheckpointFile, tuple[tuple[int, bytes], ...]]:
    """Where the tensors of a new file will lie, and the bytes between their contents.

    Args:
        path: of the file.
        tensors: name, element type and dims of each.

    Raises:
        CheckpointError: the format has no such element type.
    """
    frames: list[tuple[int, bytes]] = []
    entries: dict[str, Entry] = {}
    position = 0
    for name, dtype, dims in tensors:
        if dtype not in _NAMES:
            what, fix = f"a .ckpt has no type {dtype}", "write --format safetensors"
            raise CheckpointError(what, f"tensor {name!r}", fix)
        total, segments = entry_bytes(dtype, dims), []
        for start in range(0, max(total, 1), PIECE_BYTES):
            nbytes = min(PIECE_BYTES, total - start)
            frame = _frame(name, dtype, dims, nbytes)
            frames.append((position, frame))
            segments.append(Segment(position + len(frame), start, nbytes))
            position += len(frame) + nbytes
        entries[name] = Entry(name, dtype, dims, tuple(segments))
    return CheckpointFile(path, "ckpt", position, entries), tuple(frames)


def _frame(name: str, dtype: str, dims: tuple[int, ...], nbytes: int) -> bytes:
    """Everything of a value before its content, which ends all three messages."""

    def lead(number: int, length: int) -> bytes:
        return varint(number << 3 | Wire.BYTES) + varint(length)

    kind, tag = _NAMES[dtype].encode(), name.encode()
    written = (0,) if dtype == TEXT else dims
    tensor = b"".join(varint(DIMS << 3 | Wire.VARINT) + varint(size) for size in written)
    tensor += lead(TYPE, len(kind)) + kind + lead(CONTENT, nbytes)
    value = lead(TAG, len(tag)) + tag + lead(TENSOR, len(tensor) + nbytes) + tensor
    return lead(VALUE, len(value) + nbytes) + value
