"""One task after the other, with everything kept that several of them share."""

from __future__ import annotations

import gzip
from collections import OrderedDict
from collections.abc import Mapping
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
from planner.joint import search_whole
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
        if request.global_batch is not None:
            return task.machine.noted(search_whole(graph, cluster, request))
        return task.machine.noted(search(graph, cluster, request, ready=self._made_ready(task)))

    def _made_ready(self, task: Task) -> Ready:
        chip = task.machine.cluster.chip
        key = (task.model, task.request, chip.name, tuple(sorted(chip.peak_flops)))
        if key not in self._ready:
            graph = self._graphs[task.model]
            self._ready[key] = made_ready(graph, task.machine.cluster, task.request)
            if len(self._ready) > READY_MODELS:
                self._ready.popitem(last=False)
        self._ready.move_to_end(key)
        return self._ready[key]


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
