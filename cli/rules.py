"""Sharding rules from the command line and from files, as text; their meaning is the planner's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cli.errors import UserError

LARGEST_FILE_BYTES = 2**20
_FIX = "write kind, colon and rule, such as 'custom::Twist: b s -> b s'"


def rules(texts: Sequence[str] | None, file: Path | None) -> tuple[tuple[str, str], ...]:
    """Kinds of operators, each with the notation of its rule, in order.

    >>> rules(["custom::Twist: b  s -> b s"], None)
    (('custom::Twist', 'b s -> b s'),)

    Raises:
        UserError: a text is no rule, or the file cannot be read.
    """
    given = [_rule(text, f"--rule {text!r}") for text in texts or ()]
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


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    """Lines with where they stand; a `#` begins a comment."""
    for number, line in enumerate(_text(file).splitlines(), 1):
        content = line.partition("#")[0].strip()
        if content:
            yield content, f"line {number} of {file}"


def _text(file: Path) -> str:
    fix = "name a text file with a rule on each line"
    try:
        if file.stat().st_size > LARGEST_FILE_BYTES:
            raise UserError(f"larger than {LARGEST_FILE_BYTES} bytes", f"--rules {file}", fix)
        return file.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot read {file}: {reason}", f"--rules {file}", fix) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is no text in UTF-8", f"--rules {file}", fix) from error
