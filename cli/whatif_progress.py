"""How far a sweep is, as a bar with the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from report.sweep import span

if TYPE_CHECKING:
    from planner.whatif.sweep import Count

CELLS = 20


class Remaining:
    """Turns counts into lines of progress."""

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock = say, clock
        self._started, self._of = clock(), ""

    def __call__(self, count: Count) -> None:
        if not count.whole:
            return
        if count.of != self._of:
            self._started, self._of = self._clock(), count.of
        filled = CELLS * count.done // count.whole
        bar = "#" * filled + "." * (CELLS - filled)
        self._say(f"[{bar}] {count.done} of {count.whole} {count.of}{self._left(count)}")

    def _left(self, count: Count) -> str:
        own = count.done - count.known
        if count.done == count.whole:
            return ""
        if not own:
            return f", {count.known} known" if count.known else ""
        each_s = (self._clock() - self._started) / own
        return f", {span(each_s * (count.whole - count.done))} left"
