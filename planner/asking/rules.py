"""Sharding rules as text: kinds of operators, each with the notation of its rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.asking.errors import UserError
from planner.asking.sources import Document

_FIX = "write kind, colon and rule, such as 'custom::Twist: b s -> b s'"


def rules(texts: Sequence[str], file: Document | None) -> tuple[tuple[str, str], ...]:
    """Kinds of operators, each with the notation of its rule, in order.

    >>> rules(["custom::Twist: b  s -> b s"], None)
    (('custom::Twist', 'b s -> b s'),)

    Raises:
        UserError: a text is no rule.
    """
    given = [_rule(text, f"--rule {text!r}") for text in texts]
    if file is not None:
        given += [_rule(text, place) for text, place in _lines(file)]
    return tuple(sorted(given))


def _rule(text: str, place: str) -> tuple[str, str]:
    """The last colon ends the kind, for the kind may hold colons and a rule holds none."""
    kind, _, notation = text.rpartition(":")
    kind, notation = kind.strip(), " ".join(notation.split())
    if not kind or kind.endswith(":") or "->" not in notation:
        raise UserError(f"{text.strip()!r} gives no rule to a kind of operator", place, _FIX)
    return kind, notation


def _lines(file: Document) -> Iterator[tuple[str, str]]:
    """Lines with where they stand; a `#` begins a comment."""
    for number, line in enumerate(file.text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if content:
            yield content, f"line {number} of {file.name}"
