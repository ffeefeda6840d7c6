"""Who works on the tasks of a sweep: this process, or several on this machine."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ir.graph import OpGraph
from planner.whatif.tasks import Task
from planner.whatif.workbench import Done, Workbench

AHEAD = 2
"""Tasks handed out for each worker at a time."""
RECORDS_BETWEEN_COLLECTIONS = 200_000
_END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2): whoever began the sweep may be killed."""
RESTARTS = 5
"""Times that lost workers are replaced before a sweep gives up."""


class LostWorkersError(RuntimeError):
    """Workers ended again and again without an answer."""


class Engine(Protocol):
    """Answers tasks in any order. A task has the same answer wherever and however often it runs."""

    name: ClassVar[str]

    def run(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[Task], *, keep_plans: bool
    ) -> Iterator[Done]:
        """Every task once, as they are done; closing it ends the work."""
        ...


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Processes of this machine; one works in this process."""

    workers: int
    name: ClassVar[str] = "local"

    def run(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[Task], *, keep_plans: bool
    ) -> Iterator[Done]:
        """Every task once; those of a worker that was lost are begun again by another."""
        if self.workers == 1 or len(tasks) < 2:
            bench = Workbench(graphs, keep_plans=keep_plans)
            yield from map(bench.done, tasks)
            return
        left = {task.key: task for task in tasks}
        for _ in range(RESTARTS + 1):
            try:
                for done in self._pooled(graphs, list(left.values()), keep_plans=keep_plans):
                    del left[done.key]
                    yield done
            except BrokenProcessPool:
                continue
            return
        raise LostWorkersError(
            f"workers were lost {RESTARTS + 1} times\n  at:  --workers {self.workers}\n"
            "  fix: use fewer workers: each needs a gigabyte of memory or more"
        )

    def _pooled(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[Task], *, keep_plans: bool
    ) -> Iterator[Done]:
        workers = min(self.workers, len(tasks))
        others = multiprocessing.active_children()
        pool = ProcessPoolExecutor(
            workers, multiprocessing.get_context("spawn"), _begin, (dict(graphs), keep_plans)
        )
        try:
            waiting: set[Future[Done]] = set()
            queue = iter(tasks)
            while True:
                while len(waiting) < AHEAD * workers and (task := next(queue, None)) is not None:
                    with _interrupted_later():
                        waiting.add(pool.submit(_work, task))
                if not waiting:
                    break
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        except BaseException:
            # Nobody waits for answers any more: workers would go on to the end of their searches.
            for worker in multiprocessing.active_children():
                if worker not in others:
                    worker.kill()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Ctrl-C waits while a worker begins, and the worker is never told of it."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_bench: list[Workbench] = []
"""The bench of a worker process, filled once when the process begins."""


def _begin(graphs: Mapping[str, OpGraph], keep_plans: bool) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    # Ctrl-C is for who began the sweep: solvers here would end early with what they have.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely()
    _bench[:] = [Workbench(graphs, keep_plans=keep_plans)]


def collect_rarely() -> None:
    """For a process that does nothing but search: searches make many records and no cycles, and
    looking for them takes a tenth of the time.
    """
    gc.freeze()
    gc.set_threshold(RECORDS_BETWEEN_COLLECTIONS)


def _work(task: Task) -> Done:
    return _bench[0].done(task)
