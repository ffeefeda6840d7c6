"""Errors that the user can mend: what, where and how. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A fault in what the user asked, in three lines: what, `at:` where, `fix:` how to mend it."""

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        lines = [what, *([f"  at:  {where}"] if where else []), *([f"  fix: {fix}"] if fix else [])]
        super().__init__("\n".join(lines))


def unknown_name(noun: str, name: str, known: Iterable[str], where: str) -> UserError:
    """The error for a name that is not one of the known ones, with the closest of them."""
    names = list(known)
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return UserError(f"unknown {noun} {name!r}", where, f"{hint}known: {', '.join(names)}")
