"""Which cases of MindSpore's tests are not held, as docs/mindspore-cases.md lists them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.planner.mindspore_cases_file import of_kind

DOCS = Path(__file__).parents[2] / "docs" / "mindspore-cases.md"
_ROW = re.compile(r"^\| ([\d, –]+) \| (\w+) \| (.+) \|$")


@cache
def explained() -> dict[int, tuple[str, str]]:
    """Kind and reason by number; a number that stands twice is an error."""
    out: dict[int, tuple[str, str]] = {}
    for line in DOCS.read_text().splitlines():
        row = _ROW.match(line)
        for number in _numbers(row[1]) if row else []:
            assert row is not None
            assert number not in out, number
            out[number] = row[2], row[3]
    return out


def _numbers(text: str) -> list[int]:
    """`1, 4–6` is 1, 4, 5, 6."""
    out: list[int] = []
    for part in text.split(", "):
        first, _, last = part.partition("–")
        out += range(int(first), int(last or first) + 1)
    return out


def held(*kinds: str) -> list[int]:
    """Cases of these kinds that a test has to hold."""
    return [number for number in of_kind(*kinds) if number not in explained()]
