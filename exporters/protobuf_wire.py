"""The wire format of Protocol Buffers, as far as integers, strings and nested messages go.

Written out here because a strategy file needs six rules of it and no schema compiler. Reading
trusts nothing: every length and range is checked, and every error names the byte.

Source: Protocol Buffers documentation, "Encoding".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZE = {_FIXED64: 8, _FIXED32: 4}
_WIRE_TYPES = {
    _VARINT: "integer",
    _FIXED64: "64-bit number",
    _BYTES: "bytes",
    _FIXED32: "32-bit number",
}
_LONGEST_VARINT = 10
_MOST_FIELDS = 2**20  # bounds the memory that a hostile file can claim
_MODULUS = 1 << 64


class IntegerType(NamedTuple):
    """An integer type of a schema."""

    name: str
    low: int
    high: int


UINT32 = IntegerType("uint32", 0, 2**32 - 1)
INT32 = IntegerType("int32", -(2**31), 2**31 - 1)
INT64 = IntegerType("int64", -(2**63), 2**63 - 1)


class WireError(ValueError):
    """Bytes that are not the message they should be."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(f"{what}, at byte {offset}")
        self.what = what
        self.offset = offset


def varint(value: int) -> bytes:
    """An integer in groups of seven bits, lowest first; a negative one takes ten bytes.

    >>> varint(300).hex(), varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    rest = value % _MODULUS
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def integer_field(number: int, value: int) -> bytes:
    """A field that holds one integer."""
    return varint(number << 3 | _VARINT) + varint(value)


def integer_fields(number: int, values: Iterable[int]) -> bytes:
    """A repeated integer field, not packed: one tag for each value."""
    return b"".join(integer_field(number, value) for value in values)


def bytes_field(number: int, payload: bytes) -> bytes:
    """A field that holds a string or a nested message."""
    return varint(number << 3 | _BYTES) + varint(len(payload)) + payload


class _Field(NamedTuple):
    number: int
    wire_type: int
    offset: int  # of the tag
    start: int  # of the payload
    end: int
    value: int  # of an integer, as 64 bits without sign


def _read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_VARINT):
        if position + index >= end:
            raise WireError("the data end inside an integer", position)
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value >= _MODULUS:
                break
            return value, position + index + 1
    raise WireError("an integer is longer than 64 bits", position)


def _fields(data: bytes, start: int, end: int) -> Iterator[_Field]:
    position = start
    while position < end:
        offset = position
        tag, position = _read_varint(data, position, end)
        number, wire_type = tag >> 3, tag & 7
        if wire_type not in _WIRE_TYPES or not 0 < number < 1 << 29:
            raise WireError(f"{tag} is no tag of a field", offset)
        value, begin = 0, position
        if wire_type == _VARINT:
            value, position = _read_varint(data, position, end)
        else:
            length = _FIXED_SIZE.get(wire_type)
            if length is None:
                length, begin = _read_varint(data, position, end)
            if length > end - begin:
                raise WireError(f"a field of {length} bytes where {end - begin} are left", offset)
            position = begin + length
        yield _Field(number, wire_type, offset, begin, position, value)


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its fields by number, in the order of the file; unknown ones stay unread."""

    data: bytes
    """The whole file; nothing is copied for nested messages."""

    offset: int
    """Where the message starts, for errors."""

    fields: dict[int, list[_Field]]

    @classmethod
    def parse(cls, data: bytes, start: int = 0, end: int | None = None) -> Self:
        """Split the bytes from `start` to `end` into fields."""
        fields: dict[int, list[_Field]] = {}
        found = _fields(data, start, len(data) if end is None else end)
        for count, field in enumerate(found):
            if count == _MOST_FIELDS:
                raise WireError(f"a message has more than {_MOST_FIELDS} fields", start)
            fields.setdefault(field.number, []).append(field)
        return cls(data, start, fields)

    def messages(self, number: int, name: str) -> Iterator["Message"]:
        """The nested messages of a repeated field, each parsed when its turn comes."""
        for field in self.fields.get(number, []):
            _expect(field, _BYTES, name)
            yield Message.parse(self.data, field.start, field.end)

    def message(self, number: int, name: str) -> "Message":
        """The nested message of a required field."""
        field = self._required(number, name, _BYTES)
        return Message.parse(self.data, field.start, field.end)

    def text(self, number: int, name: str) -> str:
        """The string of a required field."""
        field = self._required(number, name, _BYTES)
        try:
            return self.data[field.start : field.end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise WireError(f"{name} is not UTF-8", field.start + error.start) from None

    def integer(self, number: int, name: str, kind: IntegerType) -> int:
        """The integer of a required field."""
        field = self._required(number, name, _VARINT)
        return _signed(field.value, kind, name, field.offset)

    def integers(self, number: int, name: str, kind: IntegerType) -> tuple[int, ...]:
        """The integers of a repeated field, packed or not."""
        values: list[int] = []
        for field in self.fields.get(number, []):
            if field.wire_type == _VARINT:
                values.append(_signed(field.value, kind, name, field.offset))
                continue
            _expect(field, _BYTES, name)
            if field.end - field.start > _MOST_FIELDS:
                raise WireError(f"{name} packs more than {_MOST_FIELDS} bytes", field.offset)
            position = field.start
            while position < field.end:
                offset = position
                value, position = _read_varint(self.data, position, field.end)
                values.append(_signed(value, kind, name, offset))
        return tuple(values)

    def _required(self, number: int, name: str, wire_type: int) -> _Field:
        found = self.fields.get(number, [])
        if not found:
            raise WireError(f"{name} is missing", self.offset)
        if len(found) > 1:
            raise WireError(f"{name} occurs {len(found)} times, not once", found[1].offset)
        _expect(found[0], wire_type, name)
        return found[0]


def _expect(field: _Field, wire_type: int, name: str) -> None:
    if field.wire_type != wire_type:
        seen, wanted = _WIRE_TYPES[field.wire_type], _WIRE_TYPES[wire_type]
        raise WireError(f"{name} is coded as {seen}, not as {wanted}", field.offset)


def _signed(value: int, kind: IntegerType, name: str, offset: int) -> int:
    signed = value - _MODULUS if kind.low < 0 and value >= _MODULUS // 2 else value
    if not kind.low <= signed <= kind.high:
        raise WireError(f"{name} is {signed}, outside {kind.name}", offset)
    return signed
