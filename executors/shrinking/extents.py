"""Extents as products of atoms: what has to change together when a graph is made smaller, and
how the extent of a result follows from those of operands where they are not equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Extent: TypeAlias = int
"""Number of an extent: of a dimension, or of a factor of a rule."""
Term: TypeAlias = tuple[Extent, ...]
"""A product of extents, outermost first."""


class Extents:
    """Extents that are equal are one; one that is a product knows its parts."""

    def __init__(self) -> None:
        self._size: list[int] = []
        self._same: list[Extent] = []
        self._parts: dict[Extent, Term] = {}

    def new(self, size: int) -> Extent:
        """An extent of which nothing is known but its size."""
        self._size.append(size)
        self._same.append(len(self._same))
        return len(self._same) - 1

    def size(self, term: Sequence[Extent]) -> int:
        """Product of the sizes of extents."""
        return math.prod(self._size[extent] for extent in term)

    def atoms(self, term: Sequence[Extent]) -> Term:
        """What a product is made of in the end; extents of 1 are left out, as they stay."""
        out: list[Extent] = []
        for extent in term:
            root = self._root(extent)
            if root in self._parts:
                out += self.atoms(self._parts[root])
            elif self._size[root] != 1:
                out.append(root)
        return tuple(out)

    def value(self, term: Sequence[Extent], values: Mapping[Extent, int]) -> int:
        """Size of a product when atoms have these values."""
        return math.prod(values[atom] for atom in self.atoms(term))

    def equate(self, left: Sequence[Extent], right: Sequence[Extent]) -> tuple[Term, Term]:
        """Tie two products of the same size.

        They are compared outermost first; where one extent divides the other, that one becomes a
        product. What is left when neither divides the other is returned: two products that have to
        stay equal.
        """
        one, other = self.atoms(left), self.atoms(right)
        while one and other:
            a, b = one[0], other[0]
            if a == b:
                one, other = one[1:], other[1:]
            elif self._size[a] == self._size[b]:
                self._same[max(a, b)] = min(a, b)
            elif self._size[b] and self._size[a] % self._size[b] == 0:
                self._cut(a, b)
            elif self._size[a] and self._size[b] % self._size[a] == 0:
                self._cut(b, a)
            else:
                break
            one, other = self.atoms(one), self.atoms(other)
        return one, other

    def _cut(self, extent: Extent, first: Extent) -> None:
        self._parts[extent] = (first, self.new(self._size[extent] // self._size[first]))

    def _root(self, extent: Extent) -> Extent:
        while self._same[extent] != extent:
            self._same[extent] = self._same[self._same[extent]]
            extent = self._same[extent]
        return extent


class Formula(Protocol):
    """The extent of a result from those of operands; None where these are not possible."""

    def __call__(self, sizes: Sequence[int]) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Relation:
    """An extent that follows from others."""

    target: Term
    sources: tuple[Term, ...]
    formula: Formula


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of the extents, and a constant."""

    offset: int = 0

    def __call__(self, sizes: Sequence[int]) -> int | None:
        return sum(sizes) + self.offset


@dataclass(frozen=True, slots=True)
class Scaled:
    """The extent times a ratio."""

    times: int
    over: int

    def __call__(self, sizes: Sequence[int]) -> int | None:
        product = math.prod(sizes) * self.times
        return product // self.over if product % self.over == 0 else None


EQUAL = Scaled(1, 1)
"""Two products that are equal."""


@dataclass(frozen=True, slots=True)
class Window:
    """Places of a window that moves over the extent, as in a convolution."""

    size: int
    """From its first element to its last one."""
    stride: int
    padding: int
    """At both ends together; negative where the result has one place for each stride."""
    up: bool = False
    """Whether a last window may reach over the end."""

    def __call__(self, sizes: Sequence[int]) -> int | None:
        if self.padding < 0:
            return -(-sizes[0] // self.stride)
        room = sizes[0] + self.padding - self.size
        if room < 0:
            return None
        return (-(-room // self.stride) if self.up else room // self.stride) + 1
