"""Entries of a `.pt2` archive: a zip file of which JSON texts and raw numbers are read.

Pickled entries (sample inputs, the state of older files) are never opened.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx

from importers.errors import ModelError
from importers.files import readable
from importers.onnx_checks import type_code
from importers.torch_export.json_text import MAX_JSON_BYTES, read_json
from importers.torch_export.pt2_program import ELEMENT_TYPES
from importers.traced.translation import MAX_BYTES
from ir.dtypes import dtype_bytes

ZIP_MAGIC = b"PK\x03\x04"
MAX_DIRECTORY_BYTES = 2**26
"""The list of entries; 100,000 weights take 12 MB."""
MAX_RATIO = 200
"""Unpacked over packed bytes: JSON of graphs reaches 20, deflate itself 1,032."""
_TRUSTED_BYTES = 2**22
_END = b"PK\x05\x06"
_END_64 = b"PK\x06\x06"
_CHUNK_BYTES = 2**20
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
_WHOLE = "save the program again, or check that the copy is whole"


@dataclass(frozen=True, slots=True)
class Archive:
    """An open archive."""

    path: Path
    file: zipfile.ZipFile
    root: str
    """Folder that all entries are in, with a slash; empty in older files."""

    @property
    def names(self) -> list[str]:
        """Entries below the root."""
        every = self.file.namelist()
        return [n.removeprefix(self.root) for n in every if n.startswith(self.root)]

    def where(self, name: str) -> str:
        return f"{self.root}{name} in {self.path}"

    def has(self, name: str) -> bool:
        return f"{self.root}{name}" in self.file.NameToInfo

    def read(self, name: str, limit: int = MAX_JSON_BYTES) -> bytes:
        """Content of an entry.

        Raises:
            ModelError: it is larger than the limit, packed beyond belief, encrypted or damaged.
        """
        info = self.file.getinfo(self.root + name)
        believed = max(_TRUSTED_BYTES, MAX_RATIO * info.compress_size)
        if info.file_size > min(limit, believed):
            raise ModelError(
                f"an entry unpacks to {info.file_size} bytes, from {info.compress_size}",
                self.where(name),
                "save the program again; its graph is no larger than its file",
            )
        data = bytearray()
        with self._blamed(name), self.file.open(info) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                data += chunk
                if len(data) > info.file_size:
                    raise zipfile.BadZipFile("longer than it says")
        return bytes(data)

    @contextmanager
    def _blamed(self, name: str) -> Iterator[None]:
        try:
            yield
        except (*_BROKEN, OSError) as error:
            raise ModelError(
                f"an entry cannot be read: {error}", self.where(name), _WHOLE
            ) from error


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """An archive, with the folder of its entries.

    Raises:
        ModelError: it is no archive, or its list of entries is too long.
    """
    file = _opened(path)
    with file:
        yield Archive(path, file, _root(file.namelist()))


def _opened(path: Path) -> zipfile.ZipFile:
    with readable(path):
        try:
            with path.open("rb") as stream:
                _check_directory(stream, path)
            return zipfile.ZipFile(path)
        except ModelError:
            raise
        except _BROKEN as error:
            raise ModelError(
                f"{path.name} is not a complete archive: {error}", str(path), _WHOLE
            ) from error


def _root(names: list[str]) -> str:
    """The folder that the format's own file lies in."""
    marked = [n.removesuffix("archive_format") for n in names if n.endswith("archive_format")]
    return min((m for m in marked if m.count("/") <= 1), default="", key=len)


def _check_directory(stream: IO[bytes], path: Path) -> None:
    """Refuse a list of entries that would fill the memory before an entry is read."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 2**16 - 1024))
    tail = stream.read()
    stream.seek(0)
    place = tail.rfind(_END)
    if place < 0 or len(tail) < place + 22:
        raise zipfile.BadZipFile("no list of entries")
    listed = struct.unpack_from("<I", tail, place + 12)[0]
    place_64 = tail.rfind(_END_64, 0, place)
    if listed == 2**32 - 1 and 0 <= place_64 <= len(tail) - 56:
        listed = struct.unpack_from("<Q", tail, place_64 + 40)[0]
    if listed > MAX_DIRECTORY_BYTES:
        raise ModelError(
            f"the archive lists its entries in {listed} bytes, more than {MAX_DIRECTORY_BYTES}",
            str(path),
            "save the program again",
        )


_TABLES = (("data/weights/", "_weights_config.json"), ("data/constants/", "_constants_config.json"))


@contextmanager
def stored_numbers(path: Path) -> Iterator[Callable[[onnx.TensorProto], bytes | None]]:
    """What gives the numbers of a stored tensor, as far as the file has them raw.

    Raises:
        ModelError: the archive is damaged.
    """
    with path.open("rb") as stream:
        if stream.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
            yield lambda _: None
            return
    with open_archive(path) as archive:
        entries = _entries(archive)
        yield lambda proto: _numbers(archive, entries.get(proto.name), proto)


def _entries(archive: Archive) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name in archive.names:
        for folder, ending in _TABLES:
            if name.startswith(folder) and name.endswith(ending):
                table = read_json(archive.read(name), archive.where(name))["config"]
                found |= {key: {**entry, "folder": folder} for key, entry in table.items()}
    return found


def _numbers(
    archive: Archive, entry: Mapping[str, Any] | None, proto: onnx.TensorProto
) -> bytes | None:
    """The numbers of one tensor; None where they are pickled, too many, or of other dims."""
    dims, code = tuple(proto.dims), proto.data_type
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
        return b""
    if offset < 0 or min(strides, default=0) < 0 or last >= raw.size:
        return None
    steps = [s * raw.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(raw[offset:], dims, steps).tobytes()
