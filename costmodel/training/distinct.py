"""Rows of columns: those that are equal, found once, and some of them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["distinct_rows", "taken"]

Record = TypeVar("Record", bound=Any)


def distinct_rows(*columns: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first row of each kind, and of all rows the number of their kind.

    A fraction of the time of `numpy.unique` of rows, which compares their bytes.

    Args:
        columns: of shape (N,) each; rows are of one kind where all are equal.

    >>> first, kinds = distinct_rows(np.array([7, 3, 7]), np.array([1, 1, 1]))
    >>> first.tolist(), kinds.tolist()
    ([1, 0], [1, 0, 1])
    """
    varying = [column for column in columns if np.any(column != column[:1])]
    count = len(columns[0])
    order = np.lexsort(varying) if varying else np.arange(count)
    new = np.arange(count) == 0
    for column in varying:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    kinds = np.empty(len(order), dtype=np.intp)
    kinds[order] = np.cumsum(new) - 1
    return order[new], kinds


def taken(record: Record, rows: NDArray[np.int64]) -> Record:
    """Some rows of a record of columns, and of the records in it."""
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    return replace(
        record,
        **{
            name: taken(value, rows) if is_dataclass(value) else np.asarray(value)[rows]
            for name, value in values.items()
        },
    )
