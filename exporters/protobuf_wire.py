"""Messages of Protocol Buffers, as far as integers, strings and nested messages go.

Source: Protocol Buffers documentation, "Encoding".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from ir.wire import Field, Wire, WireError, read_fields, read_varint, signed, varint

_WIRE_TYPES = {
    Wire.VARINT: "integer",
    Wire.FIXED64: "64-bit number",
    Wire.BYTES: "bytes",
    Wire.FIXED32: "32-bit number",
}
_MOST_FIELDS = 2**20  # bounds the memory that a hostile file can claim


class IntegerType(NamedTuple):
    """An integer type of a schema."""

    name: str
    low: int
    high: int


UINT32 = IntegerType("uint32", 0, 2**32 - 1)
INT32 = IntegerType("int32", -(2**31), 2**31 - 1)
INT64 = IntegerType("int64", -(2**63), 2**63 - 1)


def integer_field(number: int, value: int) -> bytes:
    """A field that holds one integer."""
    return varint(number << 3 | Wire.VARINT) + varint(value)


def integer_fields(number: int, values: Iterable[int]) -> bytes:
    """A repeated integer field, not packed: one tag for each value."""
    return b"".join(integer_field(number, value) for value in values)


def bytes_field(number: int, payload: bytes) -> bytes:
    """A field that holds a string or a nested message."""
    return varint(number << 3 | Wire.BYTES) + varint(len(payload)) + payload


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its fields by number, in the order of the file; unknown ones stay unread."""

    data: bytes
    """The whole file; nothing is copied for nested messages."""

    offset: int
    """Where the message starts, for errors."""

    fields: dict[int, list[Field]]

    @classmethod
    def parse(cls, data: bytes, start: int = 0, end: int | None = None) -> Self:
        """Split the bytes from `start` to `end` into fields."""
        fields: dict[int, list[Field]] = {}
        found = read_fields(data, start, len(data) if end is None else end)
        for count, field in enumerate(found):
            if count == _MOST_FIELDS:
                raise WireError(f"a message has more than {_MOST_FIELDS} fields", start)
            fields.setdefault(field.number, []).append(field)
        return cls(data, start, fields)

    def messages(self, number: int, name: str) -> Iterator["Message"]:
        """The nested messages of a repeated field, each parsed when its turn comes."""
        for field in self.fields.get(number, []):
            _expect(field, Wire.BYTES, name)
            yield Message.parse(self.data, field.start, field.end)

    def message(self, number: int, name: str) -> "Message":
        """The nested message of a required field."""
        field = self._required(number, name, Wire.BYTES)
        return Message.parse(self.data, field.start, field.end)

    def text(self, number: int, name: str) -> str:
        """The string of a required field."""
        field = self._required(number, name, Wire.BYTES)
        try:
            return self.data[field.start : field.end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise WireError(f"{name} is not UTF-8", field.start + error.start) from None

    def integer(self, number: int, name: str, kind: IntegerType) -> int:
        """The integer of a required field."""
        field = self._required(number, name, Wire.VARINT)
        return _signed(field.value, kind, name, field.offset)

    def integers(self, number: int, name: str, kind: IntegerType) -> tuple[int, ...]:
        """The integers of a repeated field, packed or not."""
        values: list[int] = []
        for field in self.fields.get(number, []):
            if field.wire == Wire.VARINT:
                values.append(_signed(field.value, kind, name, field.offset))
                continue
            _expect(field, Wire.BYTES, name)
            if field.end - field.start > _MOST_FIELDS:
                raise WireError(f"{name} packs more than {_MOST_FIELDS} bytes", field.offset)
            position = field.start
            while position < field.end:
                offset = position
                value, position = read_varint(self.data, position, field.end)
                values.append(_signed(value, kind, name, offset))
        return tuple(values)

    def _required(self, number: int, name: str, wire_type: Wire) -> Field:
        found = self.fields.get(number, [])
        if not found:
            raise WireError(f"{name} is missing", self.offset)
        if len(found) > 1:
            raise WireError(f"{name} occurs {len(found)} times, not once", found[1].offset)
        _expect(found[0], wire_type, name)
        return found[0]


def _expect(field: Field, wire_type: Wire, name: str) -> None:
    if field.wire != wire_type:
        seen, wanted = _WIRE_TYPES[field.wire], _WIRE_TYPES[wire_type]
        raise WireError(f"{name} is coded as {seen}, not as {wanted}", field.offset)


def _signed(value: int, kind: IntegerType, name: str, offset: int) -> int:
    return signed(value, kind.low, kind.high, name, kind.name, offset)
