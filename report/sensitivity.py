"""Within which range of bandwidth, batch and memory a plan stays the best."""

from __future__ import annotations

from dataclasses import dataclass

from report.explanation import Record


@dataclass(frozen=True, slots=True)
class Breakpoint(Record):
    """Where the plan stops being the best."""

    value: float
    """The first value found at which another plan is better."""
    factor: float
    """The same over the present value."""
    still: float
    """The last value found at which this plan is the best."""
    gain_s: float | None
    """Seconds of a step that the other plan saves there; None where this one cannot be."""
    changes: tuple[str, ...]
    """Operators and tensors that it lays out otherwise, the first of them."""
    text: str


@dataclass(frozen=True, slots=True)
class Range(Record):
    """How far one quantity may move."""

    quantity: str
    """`bandwidth of TIER`, `batch` or `memory`."""
    unit: str
    """`B/s`, `samples` or `B`."""
    value: float
    """The present one."""
    below: Breakpoint | None
    """Change towards less; None if there is none down to `lowest`."""
    above: Breakpoint | None
    """Change towards more; None if there is none up to `highest`."""
    lowest: float
    """The smallest value that was tried."""
    highest: float
    """The largest value that was tried; infinite, hence None in JSON, for all."""


@dataclass(frozen=True, slots=True)
class Sensitivity(Record):
    """How far everything may move, one quantity at a time."""

    step_time_s: float
    ranges: tuple[Range, ...]
