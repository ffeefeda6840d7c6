"""Settings of an export: what its files need to know and no plan says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from exporters.errors import ExportError
from ir.violations import Violation

__all__ = ["Made", "Setting", "Settings", "fault", "table_of"]

_LONGEST = 4096
"""Characters of one value; a longer one is no slip of the finger."""
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SHOWN = 80


class Setting(NamedTuple):
    """One setting that a format takes, for its help."""

    name: str
    values: str
    """What it may be, in words."""
    meaning: str


@dataclass(frozen=True, slots=True)
class Made:
    """What an export with settings made."""

    files: Mapping[str, str]
    """Text by name of the file; the name is empty where there is one file, which the user names."""
    notes: tuple[str, ...] = ()
    """What the files do not say, or what may fail, a sentence each."""


def fault(what: str, name: str, fix: str) -> ExportError:
    """The error for a setting that cannot be."""
    return ExportError(Violation(what, f"--set {name}", fix))


class Settings:
    """What the user set, read by name.

    Raises:
        ExportError: a name that the format does not know, or a value that cannot be.
    """

    def __init__(self, given: Mapping[str, str], known: Sequence[Setting]) -> None:
        names = [each.name for each in known]
        for name, value in given.items():
            if name not in names:
                close = get_close_matches(name, names, n=1, cutoff=0.4)
                hint = f"did you mean {close[0]!r}? " if close else ""
                shown = name[:_SHOWN]
                raise fault(f"no setting {shown!r}", shown, f"{hint}known: {', '.join(names)}")
            if len(value) > _LONGEST or not value.isprintable():
                what = "a value of unprintable characters, or of more than 4096"
                raise fault(what, name, "give plain text")
        self._given = dict(given)

    def has(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str, default: str) -> str:
        return self._given.get(name, default)

    def said_as(self, name: str, other: str, value: str) -> Settings:
        """These settings with one under another name, which must not be there with another value.

        Raises:
            ExportError: it is.
        """
        if self._given.get(other, value) != value:
            what = f"{other} says {self._given[other][:_SHOWN]}"
            raise fault(what, name, "leave one of them out")
        made = Settings({}, ())
        made._given = {**self._given, other: value}
        del made._given[name]
        return made

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        """One of the known words."""
        value = self._given.get(name, default)
        if value not in known:
            what = f"{value[:_SHOWN]!r} is no value of {name}"
            raise fault(what, name, f"known: {', '.join(known)}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Whether something is so."""
        value = self._given.get(name)
        if value is None:
            return default
        if value.lower() not in _FLAGS:
            raise fault(f"{value[:_SHOWN]!r} is neither true nor false", name, "give true or false")
        return _FLAGS[value.lower()]

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number."""
        value = self._given.get(name)
        if value is None:
            return default
        if not re.fullmatch(r"\d{1,9}", value, re.ASCII) or not least <= int(value) <= most:
            what = f"{value[:_SHOWN]!r} is no number from {least} to {most}"
            raise fault(what, name, f"give a whole number from {least} to {most}")
        return int(value)

    def file_text(self, name: str, most_bytes: int = 2**20) -> str:
        """The text of the file that the setting names; empty if it is not set."""
        value = self._given.get(name)
        if value is None:
            return ""
        try:
            with Path(value).open("rb") as file:
                content = file.read(most_bytes + 1)
            if len(content) > most_bytes:
                raise fault(f"{value} has more than {most_bytes} bytes", name, "name a small file")
            return content.decode("utf-8")
        except OSError as error:
            what = f"cannot read {value}: {error.strerror or error}"
            raise fault(what, name, "name a file") from error
        except UnicodeDecodeError as error:
            raise fault(f"{value} is no text in UTF-8", name, "name a text file") from error


def table_of(known: Sequence[Setting]) -> str:
    """Lines for a help text.

    >>> print(table_of([Setting("port", "1024 to 65535", "of the scheduler")]))
      port=1024 to 65535  of the scheduler
    """
    return "\n".join(f"  {each.name}={each.values}  {each.meaning}" for each in known)
