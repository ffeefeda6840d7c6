"""How the extent of a result follows from those of operands where they are not equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from executors.shrinking.extents import Term


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
