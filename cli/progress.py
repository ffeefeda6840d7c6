"""Progress on stderr: one live line on a terminal, else a line when a new stage begins, or when
nothing was said for a while.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

CLEAR = "\r\x1b[2K"
QUIET_S = 10.0
"""Seconds after which a stage that goes on is said again."""
_NUMBER = re.compile(r"[\d,]+")


class Progress:
    """Receives lines of progress; as a context manager it leaves a clean line behind."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self._clock = clock
        self._started = self._said_s = clock()
        self._stage = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.live:
            self.stream.write(CLEAR)
            self.stream.flush()

    def __call__(self, line: str) -> None:
        now_s = self._clock()
        elapsed = f"{now_s - self._started:5.1f} s"
        if self.live:
            width = shutil.get_terminal_size().columns
            self.stream.write(CLEAR + f"{elapsed}  {line}"[: width - 1])
            self.stream.flush()
            return
        stage = _NUMBER.sub("", line.partition(":")[0])
        if stage != self._stage or now_s - self._said_s >= QUIET_S:
            self._stage, self._said_s = stage, now_s
            print(f"{elapsed}  {line}", file=self.stream, flush=True)
