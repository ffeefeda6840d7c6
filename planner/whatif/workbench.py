"""One task after the other, with everything kept that several of them share."""

from __future__ import annotations

import gzip
import signal
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.result import SimulationError
from ir.batch import BatchError
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import plan_to_json
from ir.symbols import SymbolError
from ir.throughput import Rates
from planner.request import InfeasibleError, RequestError
from planner.search import Ready, made_ready, search
from planner.whatif.results import Result, impossible, planned, too_large
from planner.whatif.tasks import Task

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
        self._ready: OrderedDict[tuple[object, ...], Ready] = OrderedDict()

    def done(self, task: Task) -> Done:
        """The answer to a task; a task that cannot be answered says why."""
        try:
            plan = self.plan(task)
        except InfeasibleError as error:
            return Done(task.key, too_large(error))
        except (BatchError, RequestError, SymbolError) as error:
            return Done(task.key, impossible(error))
        text = packed(plan) if self._keep_plans else None
        return Done(task.key, result_of(plan), text)

    def plan(self, task: Task) -> Plan:
        """What a single search of this point finds, byte for byte."""
        graph, cluster, request = self._graphs[task.model], task.machine.cluster, task.request
        with _interruptible():
            found = search(graph, cluster, request, ready=self._made_ready(task))
        return task.machine.noted(found)

    def _made_ready(self, task: Task) -> Ready | None:
        """What a search without a global batch begins with."""
        if task.request.global_batch is not None:
            return None
        chip = task.machine.cluster.chip
        key = (task.model, task.request, chip.name, tuple(sorted(chip.peak_flops)))
        if key not in self._ready:
            graph = self._graphs[task.model]
            self._ready[key] = made_ready(graph, task.machine.cluster, task.request)
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
    return planned(plan, _simulated(plan))


def _simulated(plan: Plan) -> Rates | None:
    """How fast the step is event by event, where it can be simulated."""
    try:
        found = simulate_plan(plan, Effects())
    except SimulationError:
        return None
    return found.rates


def packed(plan: Plan) -> bytes:
    """plan.json without spaces, compressed; equal plans give equal bytes."""
    return gzip.compress(plan_to_json(plan, indent=None).encode(), compresslevel=1, mtime=0)
