"""The moment at which a command shall end: made once at its start, told on as seconds left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import monotonic

LEAST_S = 0.1
"""Seconds that a solver is given at least: an answer of some kind takes as long."""


def now_s() -> float:
    """Seconds on a clock that only goes on."""
    return monotonic()


@dataclass(frozen=True, slots=True)
class Deadline:
    """When to stop; work that is told `left_s` as its time limit stops at the same moment."""

    at_s: float
    """By `now_s`; infinite for none."""

    @classmethod
    def after(cls, limit_s: float | None) -> Deadline:
        """So many seconds from now; None for never."""
        return cls(math.inf if limit_s is None else now_s() + limit_s)

    @property
    def left_s(self) -> float | None:
        """Seconds until then, at least 0; None where there is no end."""
        return None if math.isinf(self.at_s) else max(self.at_s - now_s(), 0.0)

    @property
    def is_over(self) -> bool:
        return now_s() >= self.at_s

    @property
    def solver_s(self) -> float | None:
        """The same for a solver, which must answer."""
        return None if math.isinf(self.at_s) else max(self.at_s - now_s(), LEAST_S)
