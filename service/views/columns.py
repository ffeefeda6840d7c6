"""Tables as columns, so that a plan of thousands of operators stays a small answer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from report.tables import Table, Unit

_T = TypeVar("_T", bound=Hashable)


class Interned(Generic[_T]):
    """Values by number: each different one is kept once.

    >>> words = Interned[str]()
    >>> [words.number(w) for w in ("a", "b", "a")], words.values
    ([0, 1, 0], ['a', 'b'])
    """

    def __init__(self) -> None:
        self._numbers: dict[_T, int] = {}

    def number(self, value: _T) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def values(self) -> list[_T]:
        return list(self._numbers)


def rounded(values: Iterable[float], digits: int = 9) -> list[float]:
    """Numbers with so many digits behind the point: nanoseconds, if they are seconds."""
    return [round(value, digits) for value in values]


def columnar(table: Table) -> dict[str, Any]:
    """A table of thousands of rows: of each column heading, unit and values; texts by number."""
    words = Interned[str]()
    columns = []
    for (heading, unit), *values in zip(table.columns, *table.rows, strict=True):
        if unit.is_text:
            columns.append([heading, unit, [words.number(str(value)) for value in values]])
        else:
            digits = 0 if unit is Unit.BYTES else 9
            columns.append([heading, unit, [round(float(str(v)), digits) for v in values]])
    return {"title": table.title, "columns": columns, "words": words.values}
