"""Lines of progress become events: stage, best cost and bound, not too many of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_EVENTS = 400
"""Of one attempt."""
LONGEST = 500
"""Characters of a line."""
_NUMBER = r"([-+]?\d[\d.]*(?:e[-+]?\d+)?) s\b"
_BEST = re.compile(rf"\b(?:best|solved in full:) {_NUMBER}")
_UNFIT = re.compile(r"^without a memory limit|, too large$")
"""Lines of answers that do not fit, or need not."""
_BOUND = re.compile(rf"\b(?:bound|at least) {_NUMBER}")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Event:
    """Where a job is."""

    text: str
    """The line that the command line would print."""
    stage: str
    """The part of it before the colon."""
    cost_s: float | None
    """An answer that fits, in seconds of a step."""
    bound_s: float | None
    """No answer of the space that is searched can be better."""


def event_of(line: str) -> Event:
    """What a line says.

    >>> event_of("polishing: best 0.25 s, bound 0.2 s").bound_s
    0.2
    """
    text = line[:LONGEST]
    cost_s = None if _UNFIT.search(text) else _number(_BEST, text)
    return Event(text, text.partition(":")[0], cost_s, _number(_BOUND, text))


def _number(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    try:
        return None if found is None else float(found[1])
    except ValueError:
        return None


class Throttle:
    """Passes events on: at once where a new stage begins, else less and less often."""

    def __init__(self, send: Callable[[Event], None]) -> None:
        self._send = send
        self._stage = ""
        self._sent = 0
        self._last_s = 0.0
        self._held: Event | None = None

    def __call__(self, line: str) -> None:
        self._held = event_of(line)
        stage = _DIGITS.sub("", self._held.stage)
        waited_s = time.monotonic() - self._last_s
        is_due = stage != self._stage or waited_s >= 0.1 * (1 + self._sent / 20)
        if is_due and self._sent < MOST_EVENTS:
            self._stage = stage
            self.flush()

    def flush(self) -> None:
        """Pass on what was held back."""
        if self._held is not None:
            self._send(self._held)
            self._sent, self._last_s, self._held = self._sent + 1, time.monotonic(), None
