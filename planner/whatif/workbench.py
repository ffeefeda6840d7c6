"""Tasks of a sweep: done one after the other, or by several processes of this machine."""

from __future__ import annotations

import ctypes
import gzip
import multiprocessing
import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.result import SimulationError
from ir.batch import BatchError
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import plan_to_json
from ir.symbols import SymbolError
from planner.request import InfeasibleError, RequestError
from planner.requests.collector import collect_rarely
from planner.search import PreparedModel, prepared_model, search
from planner.whatif.tasks import PointTask, Result, impossible, planned, too_large

READY_MODELS = 8
"""Models at one batch and length that are kept ready."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task with its answer."""

    key: str
    result: Result
    plan: bytes | None = None
    """The plan as `packed` makes it, if there is one and it was asked for."""


class Workbench:
    """Searches and simulates the points of a sweep in one process."""

    def __init__(self, graphs: Mapping[str, OpGraph], *, keep_plans: bool) -> None:
        """Set the readings of the model by digest, and whether plans are handed back."""
        self._graphs, self._keep_plans = graphs, keep_plans
        self._ready: OrderedDict[tuple[object, ...], PreparedModel] = OrderedDict()

    def done(self, task: PointTask) -> Done:
        """The answer to a task; a task that cannot be answered says why."""
        try:
            plan = self.plan(task)
        except InfeasibleError as error:
            return Done(task.key, too_large(error))
        except (BatchError, RequestError, SymbolError) as error:
            return Done(task.key, impossible(error))
        text = packed(plan) if self._keep_plans else None
        return Done(task.key, result_of(plan), text)

    def plan(self, task: PointTask) -> Plan:
        """What a single search of this point finds, byte for byte."""
        graph, cluster, request = self._graphs[task.model], task.machine.cluster, task.request
        with _interruptible():
            found = search(graph, cluster, request, ready=self._made_ready(task))
        return task.machine.noted(found)

    def _made_ready(self, task: PointTask) -> PreparedModel | None:
        """What a search without a global batch begins with."""
        if task.request.global_batch is not None:
            return None
        chip = task.machine.cluster.chip
        key = (task.model, task.request, chip.name, tuple(sorted(chip.peak_flops)))
        if key not in self._ready:
            graph = self._graphs[task.model]
            self._ready[key] = prepared_model(graph, task.machine.cluster, task.request)
            if len(self._ready) > READY_MODELS:
                self._ready.popitem(last=False)
        self._ready.move_to_end(key)
        return self._ready[key]


class _EndedError(BaseException):
    """Ctrl-C that no solver takes for a wish to end with what it has."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the work at once: of a sweep nobody wants a search that was cut short.

    Raises:
        KeyboardInterrupt: the user ended it.
    """
    in_main = threading.current_thread() is threading.main_thread()
    usual = signal.default_int_handler
    if not in_main or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    except _EndedError:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, usual)


def _end(*_: object) -> None:
    raise _EndedError


def result_of(plan: Plan) -> Result:
    """What is known of a plan, its simulation included."""
    return planned(plan, _simulated_s(plan))


def _simulated_s(plan: Plan) -> float | None:
    """The step event by event, where it can be simulated."""
    try:
        return simulate_plan(plan, Effects()).step_s
    except SimulationError:
        return None


def packed(plan: Plan) -> bytes:
    """plan.json without spaces, compressed; equal plans give equal bytes."""
    return gzip.compress(plan_to_json(plan, indent=None).encode(), compresslevel=1, mtime=0)


AHEAD = 2
"""Tasks handed out for each worker at a time."""
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
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], *, keep_plans: bool
    ) -> Iterator[Done]:
        """Every task once, as they are done; closing it ends the work."""
        ...


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Processes of this machine; one works in this process."""

    workers: int
    name: ClassVar[str] = "local"

    def run(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], *, keep_plans: bool
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
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], *, keep_plans: bool
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


def _work(task: PointTask) -> Done:
    return _bench[0].done(task)
