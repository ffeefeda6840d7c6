"""Literals of generated Python modules. Names are hostile: all of them go through `ascii`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def table(entries: Mapping[Any, object]) -> str:
    """A dict literal with one entry on each line.

    >>> print(table({"w": (("card",), ())}))
    {
        'w': (('card',), ()),
    }
    """
    if not entries:
        return "{}"
    rows = (f"    {key!a}: {value!a},\n" for key, value in entries.items())
    return "{\n" + "".join(rows) + "}"


def text_tuple(values: Iterable[object]) -> str:
    """A tuple literal.

    >>> text_tuple([("card", 8)])
    "(('card', 8),)"
    """
    return ascii(tuple(values))
