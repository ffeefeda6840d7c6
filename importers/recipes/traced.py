"""Text that remembers which characters of a file it came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ir.recipes.recipe import Span

__all__ = ["Traced"]


@dataclass(frozen=True, slots=True)
class Traced:
    """Characters, each with the piece of the file that it stands for."""

    text: str = ""
    places: tuple[tuple[int, int], ...] = ()
    """Start and end for every character; (-1, -1) for those of no file."""

    @classmethod
    def of(cls, text: str, start: int) -> Traced:
        """A piece of a file as it stands."""
        return cls(text, tuple((start + i, start + i + 1) for i in range(len(text))))

    @classmethod
    def made(cls, text: str, start: int = -1, end: int = -1) -> Traced:
        """Text that was computed from a piece of a file."""
        return cls(text, ((start, end),) * len(text))

    def __add__(self, other: Traced) -> Traced:
        return Traced(self.text + other.text, self.places + other.places)

    def part(self, start: int, end: int) -> Traced:
        return Traced(self.text[start:end], self.places[start:end])

    def words(self) -> Iterator[Traced]:
        """What blanks part."""
        start = 0
        for i, character in enumerate(f"{self.text} "):
            if character.isspace():
                if i > start:
                    yield self.part(start, i)
                start = i + 1

    @property
    def span(self) -> Span | None:
        """The one piece of the file that it stands for, if there is one."""
        if not self.places or self.places[0][0] < 0:
            return None
        for one, other in pairwise(self.places):
            if one != other and one[1] != other[0]:
                return None
        return Span(self.places[0][0], self.places[-1][1])

    @property
    def start(self) -> int:
        """Where it begins in the file; -1 if nowhere."""
        return next((start for start, _ in self.places if start >= 0), -1)
