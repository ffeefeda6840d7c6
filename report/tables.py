"""Tables and lines of values with units: every output writes a value in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from topology.units import format_bandwidth, format_bytes, format_flops, format_seconds

__all__ = [
    "Cell", "Column", "Head", "Lines", "Part", "Table", "Unit", "numbers", "percent", "plain",
    "plain_parts", "share", "shown",
]  # fmt: skip


class Unit(StrEnum):
    """How the values of a column are written."""

    TEXT = "text"
    NAME = "name"
    """Text that may lose its middle where there is little room."""
    CODE = "code"
    """Text that is the same in every language: layouts, cuts, names of a model."""
    NUMBER = "number"
    """A count, or a number that is text already."""
    SECONDS = "s"
    CHANGE_S = "+s"
    """Seconds more or less, with their sign."""
    CHANGE_BYTES = "+B"
    BYTES = "B"
    SHARE = "%"
    """Of one, in percent."""
    BANDWIDTH = "B/s"
    FLOPS = "FLOP/s"

    @property
    def is_text(self) -> bool:
        return self in {Unit.TEXT, Unit.NAME, Unit.CODE}


_WRITERS = {
    Unit.SECONDS: format_seconds,
    Unit.CHANGE_S: lambda s: f"{'-' if s < 0 else '+'}{format_seconds(abs(s))}",
    Unit.CHANGE_BYTES: lambda n: f"{'-' if n < 0 else '+'}{format_bytes(abs(n))}",
    Unit.BYTES: format_bytes,
    Unit.SHARE: lambda part: f"{100 * part:.1f}",
    Unit.BANDWIDTH: format_bandwidth,
    Unit.FLOPS: format_flops,
}

Cell: TypeAlias = object
"""A number in the unit of its column, text as it is, or None for what is not known."""
Column: TypeAlias = str | tuple[str, Unit]
"""Heading and unit; a heading alone is of text."""


def numbers(*names: str) -> tuple[Column, ...]:
    """Columns of counts and of numbers that are text already."""
    return tuple((name, Unit.NUMBER) for name in names)


def shown(value: Cell, unit: Unit) -> str:
    """A value as people read it.

    >>> shown(0.0123, Unit.SECONDS), shown(0.5, Unit.SHARE), shown(None, Unit.BYTES)
    ('12.3 ms', '50.0', '-')
    """
    if value is None:
        return "-"
    writer = _WRITERS.get(unit)
    return writer(value) if writer and isinstance(value, int | float) else str(value)


def share(part: float, whole: float) -> float | None:
    """A part of a whole; None where the whole is nothing."""
    return part / whole if whole > 0 else None


def percent(part: float, whole: float) -> str:
    """The same, written without the sign."""
    return shown(share(part, whole), Unit.SHARE)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values under headings."""

    title: str
    columns: tuple[tuple[str, Unit], ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: int | None = None
    """The row that sums up the others."""
    after: tuple[str, ...] = ()
    """Lines below."""

    @classmethod
    def of(
        cls,
        title: str,
        columns: Sequence[Column],
        rows: Iterator[Sequence[Cell]] | Sequence[Sequence[Cell]],
        *,
        total: int | None = None,
        after: Sequence[str] = (),
    ) -> Table:
        """A table; a column that is only a heading holds text."""
        typed = tuple((c, Unit.TEXT) if isinstance(c, str) else c for c in columns)
        return cls(title, typed, tuple(map(tuple, rows)), total, tuple(after))

    @property
    def texts(self) -> list[list[str]]:
        """All cells as people read them."""
        units = [unit for _, unit in self.columns]
        return [[shown(*pair) for pair in zip(row, units, strict=True)] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences under a heading; no heading continues what stands above."""

    title: str
    lines: tuple[str, ...]
    bullet: str = ""
    soft_wrap: bool = False
    """Whether long lines are left to the terminal, as names of files are."""


@dataclass(frozen=True, slots=True)
class Head:
    """A first line, and what belongs to it; empty lines are left out."""

    title: str
    lines: Sequence[str] = ()
    soft_wrap: bool = False
    """Of the title, as of `Lines`."""


Part: TypeAlias = Head | Lines | Table
"""What an output consists of."""


def plain(part: Part) -> dict[str, Any]:
    """A part as JSON values, its cells as people read them.

    >>> plain(Table.of("Time", ("cause", ("time", Unit.SECONDS)), [("step", 0.5)], total=0))["rows"]
    [['step', '500 ms']]
    >>> plain(Lines("Notes", ("none",), "- "))
    {'title': 'Notes', 'lines': ['none'], 'bullet': '- '}
    """
    if isinstance(part, Table):
        columns = [list(column) for column in part.columns]
        table = {"title": part.title, "columns": columns, "rows": part.texts}
        return table | {"total": part.total, "after": list(part.after)}
    lines = [line.strip("\n") for line in part.lines if line]
    return {"title": part.title, "lines": lines, "bullet": getattr(part, "bullet", "")}


def plain_parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """An output as JSON values, without the parts that say nothing."""
    return [plain(part) for part in parts if _says_something(part)]


def _says_something(part: Part) -> bool:
    if isinstance(part, Table):
        return bool(part.rows or part.after)
    return bool(part.lines) or isinstance(part, Head)
