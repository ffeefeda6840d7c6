"""Entries of a `.pt2` archive: a zip file of which JSON texts and raw numbers are read.

Pickled entries (sample inputs, the state of older files) are never opened.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from importers.errors import ModelError
from importers.torch_export.json_text import MAX_JSON_BYTES

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
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror}", str(path), "check the path and its permissions"
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
