"""Protocol Buffers read with limits: fields of declared messages, found where they lie in a file.

Nothing is copied for nested messages or raw numbers until somebody asks, so a file of weights
costs no memory. Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from importers.mindir.messages import MESSAGES, SCALARS
from ir.wire import Data, Wire, WireError, read_fields, read_varint, signed

MAX_FIELDS = 2**23
"""Fields looked at in one file: bounds time and memory. A network of 100,000 nodes has half."""
MAX_DEPTH = 64
"""Messages within messages; MindSpore's own reach ten."""
_FORMATS = {"float": "<f", "double": "<d"}
_RANGES = {"int32": 2**31, "int64": 2**63}


@dataclass(slots=True)
class Budget:
    """What is left of `MAX_FIELDS`."""

    left: int = MAX_FIELDS

    def spend(self, count: int, offset: int) -> None:
        self.left -= count
        if self.left < 0:
            raise WireError(f"the file has more than {MAX_FIELDS} fields", offset)


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a file."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


_Payload: TypeAlias = int | Span
"""An integer as 64 bits without sign, or where the bytes of anything else lie."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a declared type; fields that are not declared are passed over."""

    data: Data
    kind: str
    span: Span
    budget: Budget
    depth: int = 0
    fields: Mapping[str, list[_Payload]] = field(default_factory=dict)

    @classmethod
    def parse(
        cls, data: Data, kind: str, span: Span, budget: Budget | None = None, depth: int = 0
    ) -> Message:
        """Split bytes into fields.

        Raises:
            WireError: they are no such message.
        """
        budget = budget or Budget()
        if depth > MAX_DEPTH:
            raise WireError(f"messages are nested more than {MAX_DEPTH} deep", span.start)
        names = {each.number: (name, each.wire) for name, each in MESSAGES[kind].items()}
        fields: dict[str, list[_Payload]] = {}
        for each in read_fields(data, span.start, span.end):
            budget.spend(1, each.offset)
            if each.number not in names:
                continue
            (name, wanted), wire = names[each.number], each.wire
            if wire is not wanted and not (wire is Wire.BYTES and name_is_packed(kind, name)):
                raise WireError(f"{kind}.{name} is coded as {wire.name.lower()}", each.offset)
            payload = each.value if wire is Wire.VARINT else Span(each.start, each.end)
            fields.setdefault(name, []).append(payload)
        return cls(data, kind, span, budget, depth, fields)

    def has(self, name: str) -> bool:
        return name in self.fields

    def span_of(self, name: str) -> Span | None:
        """Where the bytes of a field lie."""
        found = self.fields.get(name)
        return found[-1] if found and isinstance(found[-1], Span) else None

    def texts(self, name: str) -> list[str]:
        """Strings of a repeated field."""
        found = (p for p in self.fields.get(name, []) if isinstance(p, Span))
        return [self._decoded(span, name) for span in found]

    def text(self, name: str, default: str = "") -> str:
        span = self.span_of(name)
        return default if span is None else self._decoded(span, name)

    def raw(self, name: str) -> bytes:
        """A copy of the bytes of a field."""
        span = self.span_of(name)
        return b"" if span is None else bytes(self.data[span.start : span.end])

    def integer(self, name: str, default: int = 0) -> int:
        found = self.integers(name)
        return found[-1] if found else default

    def integers(self, name: str) -> list[int]:
        """Numbers of a field, packed or not."""
        declared = MESSAGES[self.kind][name].type
        found: list[int] = []
        for payload in self.fields.get(name, []):
            if isinstance(payload, int):
                found.append(_signed(payload, declared, name, self.span.start))
            else:
                found.extend(self._packed(payload, declared, name))
        return found

    def number(self, name: str, default: float = 0.0) -> float:
        found = self.numbers(name)
        return found[-1] if found else default

    def numbers(self, name: str) -> list[float]:
        """Floating numbers of a field, packed or not."""
        form = _FORMATS[MESSAGES[self.kind][name].type]
        size = struct.calcsize(form)
        found: list[float] = []
        for payload in self.fields.get(name, []):
            if not isinstance(payload, Span):
                continue
            if payload.size % size:
                raise WireError(f"{name} packs part of a number", payload.start)
            self.budget.spend(payload.size // size, payload.start)
            raw = bytes(self.data[payload.start : payload.end])
            found.extend(value for (value,) in struct.iter_unpack(form, raw))
        return found

    def messages(self, name: str) -> Iterator[Message]:
        """Nested messages, each parsed when its turn comes."""
        kind = MESSAGES[self.kind][name].type
        for payload in self.fields.get(name, []):
            if isinstance(payload, Span):
                yield Message.parse(self.data, kind, payload, self.budget, self.depth + 1)

    def message(self, name: str) -> Message | None:
        """A nested message, the last where there are several."""
        kind, span = MESSAGES[self.kind][name].type, self.span_of(name)
        if span is None:
            return None
        return Message.parse(self.data, kind, span, self.budget, self.depth + 1)

    def _decoded(self, span: Span, name: str) -> str:
        try:
            return bytes(self.data[span.start : span.end]).decode()
        except UnicodeDecodeError as error:
            raise WireError(f"{name} is not UTF-8", span.start + error.start) from None

    def _packed(self, span: Span, declared: str, name: str) -> Iterator[int]:
        position = span.start
        while position < span.end:
            offset = position
            self.budget.spend(1, offset)
            value, position = read_varint(self.data, position, span.end)
            yield _signed(value, declared, name, offset)


def name_is_packed(kind: str, name: str) -> bool:
    """Whether a field may have all its numbers in one run of bytes."""
    declared = MESSAGES[kind][name]
    return declared.repeated and declared.type in SCALARS


def _signed(value: int, declared: str, name: str, offset: int) -> int:
    limit = _RANGES.get(declared)
    if limit is None:
        return value
    return signed(value, -limit, limit - 1, name, declared, offset)
