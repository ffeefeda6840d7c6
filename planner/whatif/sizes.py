"""Prices plans at other sizes of their model than those that they were found for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ir.batch import BatchError
from ir.graph import OpGraph
from ir.plan import Plan
from ir.symbols import SymbolError
from planner.moving import lowered_plan
from planner.request import RequestError
from planner.stages.task import Task as StageTask
from planner.whatif.stage_sizes import staged_step_s
from planner.whatif.tasks import Task
from topology.cluster import Cluster


@dataclass(slots=True)
class Sizes:
    """The sizes of a sweep, at which plans are priced."""

    graphs: Mapping[str, OpGraph]
    tasks: Sequence[Task]
    """Of each size."""
    plans: Sequence[Plan]
    """Of each size."""
    _whole: dict[str, StageTask] = field(default_factory=dict)
    """By the reading of the model: what its sizes share."""

    def step_s(self, plan: Plan, size: int) -> float:
        """Seconds of a step of a plan; infinite where it does not split the size, or needs more
        memory than there is.
        """
        batch = self.tasks[size].request.global_batch
        try:
            if batch is None:
                return priced_at(plan, self.plans[size].graph)
            task = self._stage_task(self.tasks[size])
            if plan.pipeline is None:
                return priced_at(plan, task.true_micro(batch).graph)
            return staged_step_s(plan, task, batch)
        except (BatchError, RequestError, SymbolError):
            return math.inf

    def _stage_task(self, task: Task) -> StageTask:
        if task.model not in self._whole:
            graph, cluster = self.graphs[task.model], task.machine.cluster
            # A plan that is there needs no clock.
            request = replace(task.request, time_limit_s=None)
            self._whole[task.model] = StageTask(graph, cluster, request)
        return self._whole[task.model]


def priced_at(plan: Plan, graph: OpGraph) -> float:
    """Seconds of a step of a plan without stages at another size of its model; infinite where it
    needs more memory than there is.

    Raises:
        RequestError: the plan does not split the size.
    """
    dims = {name: tensor.dims for name, tensor in graph.tensors.items()}
    if not {tensor.name for tensor in plan.tensors} <= dims.keys():
        return math.inf
    tensors = tuple(replace(t, dims=dims[t.name]) for t in plan.tensors)
    evidence = lowered_plan(
        replace(plan, graph=graph, tensors=tensors), Cluster.from_dict(plan.cluster)
    )
    estimate = evidence.estimate(evidence.collectives())
    fits = estimate.peak_memory_bytes <= estimate.memory_limit_bytes * (1 + 1e-9)
    return estimate.step_time_s if fits else math.inf
