"""Event streams: one look at the database for all of them together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from starlette.concurrency import run_in_threadpool

from service.access import RefusedError
from service.settings import Limits
from service.store.jobs import Jobs

LOOK_S = 0.25


class Streams:
    """Tells streams when their jobs have changed."""

    def __init__(self, jobs: Jobs, limits: Limits) -> None:
        self._jobs, self._limits = jobs, limits
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._seen: dict[str, tuple[str, int]] = {}
        self._open: Counter[str] = Counter()

    def place(self, owner: str) -> AbstractContextManager[None]:
        """A stream of an owner, until the context ends.

        Raises:
            RefusedError: there are too many.
        """
        limits = self._limits
        if self._open.total() >= limits.streams or self._open[owner] >= limits.streams_per_owner:
            raise RefusedError(429, "too many event streams", {"retry-after": "5"})
        self._open[owner] += 1
        return self._held(owner)

    @contextmanager
    def _held(self, owner: str) -> Iterator[None]:
        try:
            yield
        finally:
            self._open[owner] -= 1

    @contextmanager
    def watched(self, job_id: str) -> Iterator[asyncio.Event]:
        """Set whenever a job has changed."""
        changed = asyncio.Event()
        self._watchers.setdefault(job_id, set()).add(changed)
        try:
            yield changed
        finally:
            self._watchers[job_id].discard(changed)
            if not self._watchers[job_id]:
                del self._watchers[job_id]
                self._seen.pop(job_id, None)

    @property
    def count(self) -> int:
        return self._open.total()

    async def run(self) -> None:
        """Look again and again, as long as anybody watches."""
        while True:
            await asyncio.sleep(LOOK_S)
            watched = list(self._watchers)
            if not watched:
                continue
            for job_id, seen in (await run_in_threadpool(self._jobs.marks, watched)).items():
                if self._seen.get(job_id) != seen and job_id in self._watchers:
                    self._seen[job_id] = seen
                    for changed in self._watchers[job_id]:
                        changed.set()
