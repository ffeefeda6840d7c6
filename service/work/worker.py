"""A worker process: one job after the other, each in a child process of its own."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeAlias

from service.logs import log_as_json
from service.settings import Limits
from service.store.engine import open_engine
from service.store.items import FullError
from service.store.jobs import Job
from service.store.queue import LostError, Outcome, Queue
from service.version import planner_code
from service.work.confinement import Confined, Refusal, confined, received
from service.work.given import Given, items_named

POLL_S = 0.1
KEEP_S = 1.0
EVENTS_OF_ATTEMPT = 100_000
"""Numbers that one attempt may use."""
CHECKS = frozenset({"model", "cluster", "plan"})
"""Jobs that read an upload."""
THREADS = 2
"""Cores that a search may use."""
LOG = logging.getLogger("service.worker")
Tasks: TypeAlias = Mapping[str, Callable[[Given], Outcome]]
"""What is done, by kind of job."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker is told when it is started."""

    database: str
    name: str
    """Of this worker, among all workers on the database."""
    server: int
    """Process that the worker belongs to; without it the worker ends."""
    kinds: tuple[str, ...]
    """Jobs that it takes; empty for all."""
    folder: str
    """Where tasks have folders of their own."""
    limits: Limits
    nice: int


class Worker:
    """Claims jobs until it is told to stop or its server is gone."""

    def __init__(self, orders: Orders, tasks: Tasks) -> None:
        self._orders, self._tasks = orders, tasks
        self._queue = Queue(
            open_engine(orders.database),
            orders.name,
            orders.limits.attempts,
            orders.limits.kept_bytes,
        )
        self.stopping = False

    def run(self) -> None:
        """Work."""
        idle_s = POLL_S
        while not self._is_over():
            job = self._queue.claim(self._orders.kinds)
            if job is None:
                time.sleep(idle_s)
                idle_s = min(2 * idle_s, 1.0)
                continue
            idle_s = POLL_S
            self._do(job)

    def _is_over(self) -> bool:
        return self.stopping or os.getppid() != self._orders.server

    def _do(self, job: Job) -> None:
        LOG.info("begun", extra={"job": job.id, "kind": job.kind, "attempt": job.attempt})
        began_s = time.monotonic()
        try:
            state = _Attempt(self._orders, self._queue, job, self._is_over).run(self._tasks)
        except LostError:
            state = "lost"
        seconds = round(time.monotonic() - began_s, 3)
        LOG.info("ended", extra={"job": job.id, "kind": job.kind, "state": state, "s": seconds})


class _Attempt:
    """One attempt at one job."""

    def __init__(self, orders: Orders, queue: Queue, job: Job, is_over: Callable[[], bool]) -> None:
        self._queue, self._job, self._is_over = queue, job, is_over
        self._limits, self._folder = orders.limits, orders.folder
        self._began_s = self._kept_s = time.monotonic()
        self._number = job.attempt * EVENTS_OF_ATTEMPT
        self._events: list[tuple[int, str]] = []
        is_check = job.kind in CHECKS
        self._most_s = self._limits.check_s if is_check else self._limits.job_s
        self._most_bytes = self._limits.job_bytes
        if is_check:
            self._most_bytes = min(self._most_bytes, self._limits.check_bytes)

    def run(self, tasks: Tasks) -> str:
        """Do it, and write down what came of it; the word for the log."""
        items = self._queue.inputs(self._job.owner, sorted(items_named(self._job.request)))
        with tempfile.TemporaryDirectory(prefix="job-", dir=self._folder) as name:

            def given(report: Callable[[str], None]) -> Given:
                os.chdir(name)
                return Given(self._job.request, items, report)

            task = confined(
                tasks[self._job.kind], given, self._most_bytes, self._most_s * THREADS
            )  # fmt: skip
            found: Outcome | Refusal | str = "killed"
            try:
                found = self._watched(task)
            finally:
                if isinstance(found, str):
                    task.kill()
                status = task.reap()
        return self._ended(found, status)

    def _watched(self, task: Confined) -> Outcome | Refusal | str:
        """What the task says in the end, or why nobody waits for it."""
        while True:
            if task.messages.poll(POLL_S):
                try:
                    message = received(task.messages, self._began_s)
                except (EOFError, OSError, ValueError):
                    return "crashed"
                if not isinstance(message, dict):
                    return message
                self._note(message)
            now_s = time.monotonic()
            if now_s - self._began_s > self._most_s:
                return "late"
            if self._is_over():
                return "stopped"
            if now_s - self._kept_s > KEEP_S or self._events:
                self._kept_s = now_s
                self._tell()
                if not self._queue.keep(self._job):
                    return "cancelled"

    def _note(self, event: dict[str, Any]) -> None:
        self._number += 1
        self._events.append((self._number, json.dumps(event)))

    def _tell(self) -> None:
        if self._events:
            self._queue.report(self._job, self._events)
            self._events = []

    def _ended(self, found: Outcome | Refusal | str, status: int) -> str:
        self._tell()
        if isinstance(found, Outcome):
            return self._finished(found)
        if isinstance(found, Refusal):
            self._fail(found.message)
            return "refused" if found.is_users else "fault"
        if found == "cancelled":
            self._queue.cancel(self._job)
        elif found == "late" or status == -signal.SIGXCPU:
            self._fail(f"the job took longer than {self._most_s:g} s")
        elif found == "stopped":
            self._queue.give_back(self._job, crashed=False)
        elif self._job.crashes + 1 >= self._limits.crashes:
            self._fail(f"the job ended its process {self._limits.crashes} times (status {status})")
        else:
            self._queue.give_back(self._job, crashed=True)
        return found

    def _finished(self, found: Outcome) -> str:
        try:
            self._queue.finish(self._job, found)
        except FullError as error:
            self._fail(str(error))
            return "full"
        return "done"

    def _fail(self, message: str) -> None:
        about = None
        if self._job.kind in CHECKS:
            about = (str(self._job.request[self._job.kind]),
                     {"state": "refused", "message": message})  # fmt: skip
        self._queue.fail(self._job, message, about=about)


def main() -> None:
    """Read orders from stdin, and work."""
    values = json.loads(sys.stdin.readline())
    told = {"kinds": tuple(values["kinds"]), "limits": Limits(**values["limits"])}
    orders = Orders(**{**values, **told})
    log_as_json(logging.INFO)
    os.nice(orders.nice)
    from service.work.tasks import TASKS  # noqa: PLC0415  seconds, once for all jobs

    planner_code()  # as well

    worker = Worker(orders, TASKS)

    def stop(_number: int, _frame: FrameType | None) -> None:
        worker.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker.run()


if __name__ == "__main__":
    main()
