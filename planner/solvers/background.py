"""Long calls into a solver library, which cannot be interrupted, beside work that can."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

POLL_S = 0.05


class Task(Generic[T]):
    """A call in a thread of its own, which ends with the process if nobody waits for it."""

    def __init__(self, work: Callable[[Callable[[T], None]], T]) -> None:
        """Start it.

        Args:
            work: receives a function to report with on the way; its result is reported last.
        """
        self._reports: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Callable[[T], None]], T]) -> None:
        try:
            self._reports.put(work(self._reports.put))
        except BaseException as error:  # noqa: BLE001  handed to who waits
            self._reports.put(error)

    def reports(self, between: Callable[[], bool]) -> Iterator[T]:
        """Every report as it comes, the result last.

        Args:
            between: other work, a little of it; whether there was any. If not, wait a little.

        Raises:
            Exception: what the call raised.
        """
        while True:
            running = self._thread.is_alive()
            try:
                found = self._reports.get(timeout=0.0 if between() else POLL_S)
            except queue.Empty:
                if running:
                    continue
                return
            if isinstance(found, BaseException):
                raise found
            yield found
