"""Where a plan stops being the best as one quantity moves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from report.sensitivity import Breakpoint

BISECTIONS = 6
"""The place of a change is found to a 64th of a doubling, about 1 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """The plan beside the best one at some value."""

    is_best: bool
    gain_s: float | None = None
    changes: tuple[str, ...] = ()
    reason: str = "another plan is better"


Judge = Callable[[float], Verdict]


def turn(
    judge: Judge,
    value: float,
    factor: float,
    farthest: float,
    unit: int = 0,
    bisections: int = BISECTIONS,
) -> Breakpoint | None:
    """The change on one side of a value.

    Args:
        judge: whether the plan is the best at some value.
        value: the present one.
        factor: of a step.
        farthest: where no further change is looked for.
        unit: what all values are multiples of, 0 for any.
        bisections: by which the place of the change is found.
    """
    still, moved = value, value
    found = Verdict(True)
    while found.is_best:
        if moved == farthest:
            return None
        still = moved
        beyond = moved * factor
        moved = max(beyond, farthest) if factor < 1 else min(beyond, farthest)
        moved = rounded(moved, unit)
        if moved == still:
            return None
        found = judge(moved)
    for _ in range(bisections):
        middle = rounded(math.sqrt(still * moved), unit)
        if middle in {still, moved}:
            break
        verdict = judge(middle)
        if verdict.is_best:
            still = middle
        else:
            moved, found = middle, verdict
    return Breakpoint(moved, moved / value, still, found.gain_s, found.changes, found.reason)


def rounded(value: float, unit: int) -> float:
    """The next multiple of a unit, at least one."""
    return value if not unit else float(max(1, round(value / unit)) * unit)
