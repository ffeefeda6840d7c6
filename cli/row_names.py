"""What rows of a user's table are called where the program talks of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.training.dataset import Entry

_LONGEST = 60
_MOST = 3


def row_names(entries: Sequence[Entry]) -> list[str]:
    """A name for each row that no other row has: its id, with its number where that is not enough.

    Rows count from 1 below the header.
    """
    counts = Counter(entry.name for entry in entries)
    return [
        entry.name
        if entry.name.strip() and counts[entry.name] == 1
        else f"{entry.name} (row {number})".lstrip()
        for number, entry in enumerate(entries, 1)
    ]


def printable(text: str) -> str:
    """A text for a terminal: without characters that control it."""
    return text if text.isprintable() else ascii(text)[1:-1]


def short(name: str) -> str:
    """A name for a terminal, cut where it is very long."""
    shown = printable(name)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def first_of(names: Sequence[str]) -> str:
    """A few names and how many others there are."""
    others = len(names) - _MOST
    return ", ".join(map(short, names[:_MOST])) + (f" and {others} others" if others > 0 else "")
