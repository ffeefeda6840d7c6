"""The wire format of Protocol Buffers: integers of seven-bit groups, and fields by number.

Written out here because two kinds of files need six rules of it and no schema compiler. Reading
trusts nothing: every length and range is checked, and every error names the byte.

Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

Data: TypeAlias = bytes | mmap.mmap
MODULUS = 1 << 64
_LONGEST_VARINT = 10


class Wire(IntEnum):
    """How the bytes of a field are coded."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


_CODES = frozenset(Wire)
_FIXED = {Wire.FIXED64: 8, Wire.FIXED32: 4}


class WireError(ValueError):
    """Bytes that are not the message they should be."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(f"{what}, at byte {offset}")
        self.what, self.offset = what, offset


class Field(NamedTuple):
    """One field as it lies in a file."""

    number: int
    wire: Wire
    offset: int
    """Of its tag, for errors."""
    start: int
    """Of its payload."""
    end: int
    value: int
    """Of an integer, as 64 bits without sign; 0 for anything else."""


def varint(value: int) -> bytes:
    """An integer in groups of seven bits, lowest first; a negative one takes ten bytes.

    >>> varint(300).hex(), varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    rest = value % MODULUS
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_varint(data: Data, position: int, end: int) -> tuple[int, int]:
    """The integer at a position, as 64 bits without sign, and where the next byte lies.

    Raises:
        WireError: it does not end before `end`, or has more than 64 bits.
    """
    value = 0
    for index in range(_LONGEST_VARINT):
        if position + index >= end:
            raise WireError("the data end inside an integer", position)
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value >= MODULUS:
                break
            return value, position + index + 1
    raise WireError("an integer is longer than 64 bits", position)


def read_fields(data: Data, start: int, end: int) -> Iterator[Field]:
    """The fields of a message, in the order of the file; nothing is copied.

    Raises:
        WireError: the bytes are no message.
    """
    position = start
    while position < end:
        offset = position
        tag, position = read_varint(data, position, end)
        number, code = tag >> 3, tag & 7
        if code not in _CODES or not 0 < number < 1 << 29:
            raise WireError(f"{tag} is no tag of a field", offset)
        wire, value, begin = Wire(code), 0, position
        if wire is Wire.VARINT:
            value, position = read_varint(data, position, end)
        else:
            length = _FIXED.get(wire)
            if length is None:
                length, begin = read_varint(data, position, end)
            if length > end - begin:
                raise WireError(f"a field of {length} bytes where {end - begin} are left", offset)
            position = begin + length
        yield Field(number, wire, offset, begin, position, value)


def signed(value: int, low: int, high: int, name: str, type_name: str, offset: int) -> int:
    """64 bits without sign as an integer from `low` to `high`.

    Raises:
        WireError: it lies outside; the error names the field, its type and the byte.
    """
    number = value - MODULUS if low < 0 and value >= MODULUS // 2 else value
    if not low <= number <= high:
        raise WireError(f"{name} is {number}, outside {type_name}", offset)
    return number
