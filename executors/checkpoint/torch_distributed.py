"""Torch's distributed checkpoints, read without torch: `.metadata` and `__0_0.distcp`, ...

`.metadata` is a pickle that says which box of each tensor lies where; each box is a file of
`torch.save`, a zip archive that is not compressed. Nothing of a pickle is run: every class in it
becomes a record of this module, and one that is not known is an error.

Source: PyTorch 2.13, `torch/distributed/checkpoint/metadata.py` and `filesystem.py`.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from executors.checkpoint.entries import CheckpointFile, Chunked, Entry, Place, Segment, entry_bytes
from executors.checkpoint.errors import CheckpointError
from ir.slicing import Box

DTYPES = MappingProxyType(
    {
        "float64": "float64", "float32": "float32", "float16": "float16", "bfloat16": "bfloat16",
        "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8",
        "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "bool": "bool",
        "float8_e4m3fn": "float8e4m3fn", "float8_e5m2": "float8e5m2",
        "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2fnuz": "float8e5m2fnuz",
        "float8_e8m0fnu": "float8e8m0", "complex64": "complex64", "complex128": "complex128",
    }
)  # fmt: skip
STORAGES = MappingProxyType(
    {
        "float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16",
        "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
        "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
    }
)  # fmt: skip
"""Types that have a class of storage of their own; the others lie in an untyped one."""


METADATA = ".metadata"
_LARGEST_METADATA_BYTES = 2**28
_LARGEST_PICKLE_BYTES = 2**20
_LOCAL_HEADER_BYTES = 30
_FIX = "save the checkpoint again; it is damaged, or of another version of torch"
_MODULES = ("torch.distributed.checkpoint.", "torch.serialization", "torch.storage", "pathlib")
_REBUILDERS = frozenset({"_rebuild_tensor_v2", "_rebuild_tensor_v3"})


class _Record:
    """Any object of a pickle: what it was made of and what its state is."""

    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> Self:
        made = super().__new__(cls)  # a pickle may make an object without its initialiser
        made.arguments, made.state = arguments, {}
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __getitem__(self, name: str) -> Any:
        return self.state[name]


class _Unpickler(pickle._Unpickler):  # noqa: SLF001
    """Makes records alone. Written in Python: the one in C reserves what a pickle only claims."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch", "Size"):
            return tuple
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        rebuilds = module == "torch._utils" and name in _REBUILDERS
        stores = module == "torch" and name.endswith("Storage")
        if rebuilds or stores or module.startswith(_MODULES):
            return _Record
        raise pickle.UnpicklingError(f"{module}.{name} is not known")

    def persistent_load(self, pid: Any) -> Any:
        return pid


def read_distributed(folder: Path) -> dict[str, Chunked]:
    """All tensors of a distributed checkpoint; what is no tensor is passed over.

    Raises:
        CheckpointError: it is damaged, or a box does not lie row-major.
    """
    path = folder / METADATA
    if path.stat().st_size > _LARGEST_METADATA_BYTES:
        raise CheckpointError("the metadata are too large", str(path), _FIX)
    try:
        root = _Unpickler(io.BytesIO(path.read_bytes())).load()
        places = {
            (index["fqn"], tuple(index.state.get("offset") or ())): info
            for index, info in root["storage_data"].items()
        }
        tensors = [
            (name, item)
            for name, item in root["state_dict_metadata"].items()
            if "size" in item.state
        ]
        found = {name: _tensor(folder, name, item, places) for name, item in tensors}
    except CheckpointError:
        raise
    except Exception as error:  # a pickle can fail in any way
        raise CheckpointError(f"no metadata of torch: {error}", str(path), _FIX) from error
    return _in_whole_files(found)


def _in_whole_files(tensors: dict[str, Chunked]) -> dict[str, Chunked]:
    """The same, where each file knows all that lies in it."""
    held: dict[Path, dict[str, Entry]] = {}
    for name, tensor in tensors.items():
        for box, place in zip(tensor.boxes, tensor.places, strict=True):
            entries = held.setdefault(place.file.path, {})
            key = name if name not in entries else f"{name} from {[first for first, _ in box]}"
            entries[key] = place.entry
    files = {
        path: CheckpointFile(path, "distcp", path.stat().st_size, entries)
        for path, entries in held.items()
    }
    return {
        name: replace(
            tensor,
            places=tuple(Place(files[place.file.path], place.entry) for place in tensor.places),
        )
        for name, tensor in tensors.items()
    }


def _tensor(
    folder: Path, name: str, item: _Record, places: dict[tuple[str, tuple[int, ...]], _Record]
) -> Chunked:
    dims, dtype = tuple(item["size"]), item["properties"].state[0]
    boxes: list[Box] = []
    found: list[Place] = []
    for chunk in item["chunks"]:
        offsets, sizes = tuple(chunk["offsets"]), tuple(chunk["sizes"])
        boxes.append(tuple((o, o + s) for o, s in zip(offsets, sizes, strict=True)))
        info = places[name, offsets]
        found.append(_place(folder, (name, dtype, sizes), info))
    if any(not 0 <= f <= e <= d for box in boxes for (f, e), d in zip(box, dims, strict=True)):
        raise CheckpointError(f"a box of {name!r} lies outside", str(folder / METADATA), _FIX)
    held = sum(math.prod(e - f for f, e in box) for box in boxes)
    if held != math.prod(dims):
        raise CheckpointError(f"the boxes of {name!r} are not all of it", str(folder), _FIX)
    return Chunked(dims, dtype, tuple(boxes), tuple(found))


def _place(folder: Path, kind: tuple[str, str, tuple[int, ...]], info: _Record) -> Place:
    name, dtype, dims = kind
    relative, offset, length = info["relative_path"], info["offset"], info["length"]
    if not isinstance(relative, str) or Path(relative).name != relative:
        raise CheckpointError(f"{relative!r} is no name of a file", str(folder / METADATA), _FIX)
    path = folder / relative
    start = _content(path, offset, length, dims, entry_bytes(dtype, dims))
    segment = Segment(start, 0, entry_bytes(dtype, dims))
    file = CheckpointFile(path, "distcp", path.stat().st_size, {})
    return Place(file, Entry(name, dtype, dims, (segment,)))


def _content(path: Path, offset: int, length: int, dims: tuple[int, ...], nbytes: int) -> int:
    """Where in a file the elements of one archive of `torch.save` begin."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(_Part(file, offset, length)) as archive:
            names = archive.namelist()
            pickled = archive.getinfo(next(n for n in names if n.endswith("/data.pkl")))
            data = archive.getinfo(next(n for n in names if n.endswith("/data/0")))
            if pickled.file_size > _LARGEST_PICKLE_BYTES:
                raise CheckpointError("a tensor with too long a description", str(path), _FIX)
            tensor = _Unpickler(io.BytesIO(archive.read(pickled))).load()
            _, first, sizes, strides, *_ = tensor.arguments
            file.seek(offset + data.header_offset)
            header = file.read(_LOCAL_HEADER_BYTES)
    except (zipfile.BadZipFile, pickle.UnpicklingError, StopIteration, OSError) as error:
        raise CheckpointError(f"a tensor cannot be read: {error}", str(path), _FIX) from error
    if first or tuple(sizes) != dims or not _is_row_major(dims, strides):
        fix = "call contiguous() on it before it is saved"
        raise CheckpointError("a tensor does not lie row-major", str(path), fix)
    lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    start = offset + data.header_offset + _LOCAL_HEADER_BYTES + lengths
    if data.compress_type != zipfile.ZIP_STORED or data.file_size != nbytes:
        raise CheckpointError(f"{data.file_size} bytes where {nbytes} are due", str(path), _FIX)
    if start + nbytes > offset + length:
        raise CheckpointError("a tensor reaches beyond its place", str(path), _FIX)
    return start


def _is_row_major(dims: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for size, stride in zip(reversed(dims), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


class _Part(io.RawIOBase):
    """Some bytes of a file as a file of their own."""

    def __init__(self, file: io.BufferedReader, offset: int, length: int) -> None:
        self._file, self._offset, self._length = file, offset, length
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        if base + offset < 0:
            raise OSError("before the beginning")
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._length - self._position)
        wanted = left if size < 0 else min(size, left)
        self._file.seek(self._offset + self._position)
        found = self._file.read(wanted)
        self._position += len(found)
        return found
