"""A recipe as it was read: what its files say, at which places, and what that amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ir.recipes.forms import Scalar
from ir.recipes.quantities import Quantities, Value
from ir.recipes.table import Framework

__all__ = ["Given", "Recipe", "RecipeFile", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the text of a file: offsets of its first character and behind its last."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Given:
    """One setting as a file states it."""

    name: str
    value: Scalar
    line: int
    """Where it stands, counted from 1."""
    span: Span | None
    """The text of its value; None where no piece of the file is that alone."""
    whole: Span | None = None
    """The text of name and value, where they stand together."""
    named: Span | None = None
    """The text of the name, in a script."""


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """One file with its settings."""

    name: str
    syntax: str
    """`shell`, `yaml`, `toml`, `json`, `python` or `gin`."""
    text: str
    given: tuple[Given, ...]
    remarks: tuple[str, ...] = ()
    """What was noticed, a sentence each."""
    end: int = -1
    """Where further settings can be put; -1 for nowhere."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What some files amount to."""

    framework: Framework
    files: tuple[RecipeFile, ...]
    quantities: Quantities
    said: Mapping[str, Value]
    """What the user says beside the files."""
    unread: tuple[str, ...]
    """Settings that seem to be of parallelism and that nothing is known of."""
    notes: tuple[str, ...]
    """Settings that are known and not priced, a sentence each."""

    @property
    def settings(self) -> Mapping[str, Scalar]:
        """All settings; of those that stand twice the last."""
        return {each.name: each.value for file in self.files for each in file.given}

    @property
    def values(self) -> Mapping[str, Value]:
        return self.quantities.values()

    def place(self, name: str) -> tuple[RecipeFile, Given] | None:
        """Where a setting stands, the last time."""
        found = [(f, g) for f in self.files for g in f.given if g.name == name]
        return found[-1] if found else None
