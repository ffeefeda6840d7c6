"""One tensor as `torch.save` writes it: a zip archive that is not compressed.

Everything but the elements is known before them, their CRC-32 excepted, which has four bytes left
free in two places.

Source: PyTorch 2.13, `caffe2/serialize/inline_container.cc`; PKWARE, APPNOTE.TXT 6.3.10.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

_ALIGNMENT = 64
"""Of the elements in the archive, as torch has it."""
_PADDING = b"FB"
_LIMIT_32, _LIMIT_16 = 2**32 - 1, 2**16 - 1
_ZIP64_VERSION = 45
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_64 = struct.Struct("<4sIQI")
_LOCAL_CRC, _CENTRAL_CRC = 14, 16
"""Where a header has its checksum."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Where everything lies, counted from the first byte of the archive."""

    nbytes: int
    content: int
    """First byte of the elements."""
    frames: tuple[tuple[int, bytes], ...]
    """Everything else, with its place."""
    checksums: tuple[int, ...]
    """Where the CRC-32 of the elements belongs, four bytes, the lowest first."""


def archive_of(description: bytes, nbytes: int) -> Archive:
    """The archive of one tensor.

    Args:
        description: the pickle that says its dims and type.
        nbytes: of its elements.
    """
    records = {"data.pkl": description, "byteorder": b"little", "version": b"3\n"}
    head, central = b"", b""
    for name, data in records.items():
        local, entry = _headers(name, len(data), zlib.crc32(data), len(head), 1)
        head, central = head + local + data, central + entry
    local, entry = _headers("data/0", nbytes, 0, len(head), _ALIGNMENT)
    tail = len(head) + len(local) + nbytes
    checksums = (len(head) + _LOCAL_CRC, tail + len(central) + _CENTRAL_CRC)
    head += local
    central += entry
    closing = central + _end(len(records) + 1, len(central), tail)
    return Archive(tail + len(closing), len(head), ((0, head), (tail, closing)), checksums)


def _headers(
    name: str, nbytes: int, checksum: int, offset: int, alignment: int
) -> tuple[bytes, bytes]:
    """The header before a record and that in the list at the end."""
    path = f"archive/{name}".encode()
    large = nbytes >= _LIMIT_32
    size = _LIMIT_32 if large else nbytes
    version = _ZIP64_VERSION if large else 0
    sizes = struct.pack("<2H2Q", 1, 16, nbytes, nbytes) if large else b""
    begin = offset + _LOCAL.size + len(path) + len(sizes)
    gap = -(begin + 4) % alignment
    extra = sizes + (_PADDING + gap.to_bytes(2, "little") + b"Z" * gap if alignment > 1 else b"")
    common = (version, 0, 0, 0, 0, checksum, size, size, len(path))
    local = _LOCAL.pack(b"PK\x03\x04", *common, len(extra)) + path + extra
    rest = (len(sizes), 0, 0, 0, 0, offset)
    return local, _CENTRAL.pack(b"PK\x01\x02", version, *common, *rest) + path + sizes


def _end(count: int, nbytes: int, offset: int) -> bytes:
    """What closes an archive: where its list of records stands."""
    if offset < _LIMIT_32:
        return _END.pack(b"PK\x05\x06", 0, 0, count, count, nbytes, offset, 0)
    wide = (_ZIP64_VERSION, _ZIP64_VERSION, 0, 0, count, count, nbytes, offset)
    record = _END_64.pack(b"PK\x06\x06", _END_64.size - 12, *wide)
    locator = _LOCATOR_64.pack(b"PK\x06\x07", 0, offset + nbytes, 1)
    return (
        record
        + locator
        + _END.pack(b"PK\x05\x06", 0, 0, _LIMIT_16, _LIMIT_16, _LIMIT_32, _LIMIT_32, 0)
    )
