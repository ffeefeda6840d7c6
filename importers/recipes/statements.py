"""A shell script cut into statements and words; quotes, brackets and comments are kept apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from importers.recipes.traced import Traced

__all__ = ["CASE_END", "Statement", "closing", "end_of_word", "statements", "top_level", "unquoted"]

CASE_END = ";;"
_DOCUMENT = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, with the document that stands behind it."""

    line: Traced
    document: Traced | None = None


def statements(text: str) -> Iterator[Statement]:
    """Whole statements: continued lines, quotes and arrays over several lines are one."""
    at = 0
    while at < len(text):
        end, document = _end_of_statement(text, at)
        line = _without_continuations(text, at, end)
        ends_case = text.startswith(CASE_END, end)
        at = end + (2 if ends_case else 1)
        if document:
            pattern = re.compile(rf"^\s*{re.escape(document)}\s*$", re.MULTILINE)
            close = pattern.search(text, at)
            stop = close.start() if close else len(text)
            yield Statement(line, Traced.of(text[at:stop], at))
            at = close.end() + 1 if close else len(text)
        else:
            yield Statement(line)
        if ends_case:
            yield Statement(Traced.made(CASE_END))


def _without_continuations(text: str, start: int, end: int) -> Traced:
    """A statement; a line that goes on is joined by a blank, and comments inside are left out."""
    kept: list[Traced] = []
    at, quote = start, ""
    while at < end:
        character = text[at]
        if character == "\\" and text[at + 1 : at + 2] in {"\n", "\r"}:
            kept.append(Traced.made(" "))
            at += 2
            continue
        if not quote and character == "#" and (at == start or text[at - 1].isspace()):
            stop = text.find("\n", at, end)
            at = end if stop < 0 else stop
            continue
        if character in "\"'":
            quote = "" if quote == character else quote or character
        kept.append(Traced.of(character, at))
        at += 1
    places = tuple(place for each in kept for place in each.places)
    return Traced("".join(each.text for each in kept), places)


def _bare(text: str, start: int, *, comments: bool = False) -> Iterator[tuple[int, str]]:
    """The characters outside of quotes and comments, with their places."""
    at, quote = start, ""
    while at < len(text):
        character = text[at]
        if character == "\\" and quote != "'":
            at += 2
            continue
        if quote or character in "\"'`":
            quote = "" if character == quote else quote or character
        elif comments and character == "#" and (at == start or text[at - 1].isspace()):
            stop = text.find("\n", at)
            at = len(text) if stop < 0 else stop
            continue
        else:
            yield at, character
        at += 1


def _end_of_statement(text: str, start: int) -> tuple[int, str]:
    """Where a statement ends, and the word that ends a document behind it."""
    depth, document = 0, ""
    for at, character in _bare(text, start, comments=True):
        if character in "()":
            depth = max(0, depth + (1 if character == "(" else -1))
        elif character == "<" and text.startswith("<<", at) and text[at - 1 : at] != "<":
            opened = None if text.startswith("<<<", at) else _DOCUMENT.match(text, at)
            document = opened.group(1) if opened and not depth else document
        elif not depth and (character == "\n" or (character == ";" and not document)):
            return at, document
    return len(text), document


def closing(text: str, start: int) -> int:
    """Where the bracket that opens at a place is closed."""
    depth = 0
    for at, character in _bare(text, start):
        depth += (character == "(") - (character == ")")
        if not depth:
            return at
    return len(text)


def end_of_word(text: str, start: int) -> int:
    """Where a word ends that begins at a place."""
    depth = 0
    for at, character in _bare(text, start):
        depth += (character in "({") - (character in ")}")
        if character.isspace() and depth <= 0:
            return at
    return len(text)


def top_level(text: str, signs: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """The pieces between signs outside of quotes and brackets: the sign before, start and end."""
    pieces: list[tuple[str, int, int]] = []
    sign, start, depth = "", 0, 0
    for at, character in _bare(text, 0):
        depth += (character in "([") - (character in ")]")
        found = next((each for each in signs if text.startswith(each, at)), "")
        if found and depth <= 0 and at >= start:
            pieces.append((sign, start, at))
            sign, start = found, at + len(found)
    return [*pieces, (sign, start, len(text))]


def unquoted(value: Traced) -> Traced:
    """Without quotes, and without what escapes them."""
    text = value.text
    kept = [
        i for i, character in enumerate(text)
        if character not in "\"'" and not (character == "\\" and text[i + 1 : i + 2] in {'"', "'"})
    ]  # fmt: skip
    return Traced("".join(text[i] for i in kept), tuple(value.places[i] for i in kept))
