"""Plans at other sizes of batch or sequence than their own: what was decided stays as it is.

Cuts, layouts, what is computed again, and where states rest are kept. With stages a micro-batch is
the largest that divides both the one that was planned and the batch, and with which chunks can take
turns; the batch decides how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ir.batch import BatchError
from ir.graph import OpGraph
from ir.plan import Pipeline, Plan
from ir.plan_stages import has_equal_stages
from ir.symbols import SymbolError
from planner.lowering.lowered import Lowered
from planner.pipeline.configuration import laid_out
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.solved import Solved
from planner.pipeline.space import Configuration, divisors
from planner.pipeline.stage_plan import drafted
from planner.repricing.planned_choice import (
    PlannedCandidates,
    least_cost,
    lowered_plan,
)
from planner.request import RequestError
from planner.solvers import Solution
from planner.whatif.tasks import PointTask
from topology.cluster import Cluster


@dataclass(slots=True)
class Sizes:
    """The sizes of a sweep, at which plans are priced."""

    graphs: Mapping[str, OpGraph]
    tasks: Sequence[PointTask]
    """Of each size."""
    plans: Sequence[Plan]
    """Of each size."""
    _whole: dict[str, PipelineSearch] = field(default_factory=dict)
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
            if plan.pipeline.is_single:
                return priced_at(plan, task.true_micro(batch).graph)
            return staged_step_s(plan, task, batch)
        except (BatchError, RequestError, SymbolError):
            return math.inf

    def _stage_task(self, task: PointTask) -> PipelineSearch:
        if task.model not in self._whole:
            graph, cluster = self.graphs[task.model], task.machine.cluster
            # A plan that is there needs no clock.
            request = replace(task.request, time_limit_s=None)
            self._whole[task.model] = PipelineSearch(graph, cluster, request)
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
    estimate = evidence.estimate()
    fits = estimate.peak_memory_bytes <= estimate.memory_limit_bytes * (1 + 1e-9)
    return estimate.step_time_s if fits else math.inf


def staged_step_s(plan: Plan, task: PipelineSearch, batch: int) -> float:
    """Seconds of a step of a plan with stages; infinite where it does not fit into the memory.

    Args:
        plan: with stages.
        task: the same model on the same machine, at any length of its sequences.
        batch: samples of a step.

    Raises:
        RequestError: the plan does not split this size.
    """
    found = at_size(plan, task, batch)
    return drafted(found).step_s if found.fits else math.inf


def at_size(plan: Plan, task: PipelineSearch, batch: int) -> Solved:
    """The plan at another size; arguments and errors are those of `staged_step_s`."""
    pipeline = plan.pipeline
    if not has_equal_stages(plan):
        raise _other_size("its stages differ in their devices")
    shape = shape_at(pipeline, batch)
    mesh = task.stage_machine(shape)[1]
    if mesh.rows != plan.mesh:
        raise _other_size("its stages have another mesh")
    segments = task.true_micro(shape.micro_batch).segments
    ends = [stage.end for stage in pipeline.stages]
    if not set(ends) <= set(segments.positions):
        raise _other_size("the model is cut in other places")
    inside = {n for stage in pipeline.stages for block in stage.blocks for n in range(*block)}
    makers = {name: at for at, op in enumerate(plan.graph.ops) for name in op.outputs}
    single = frozenset(name for name in plan.recomputed if makers.get(name) not in inside)
    return laid_out(
        task,
        shape,
        [segments.positions.index(end) for end in ends],
        tuple(len(stage.blocks) for stage in pipeline.stages),
        lambda lowered: _planned(plan, lowered),
        recompute=bool(single),
    )


def shape_at(pipeline: Pipeline, batch: int) -> Configuration:
    """How a batch goes through the stages of a plan: with the largest micro-batch of which every
    stage has one, as a search would (`planner/pipeline/space.py`); else with the largest.

    Args:
        pipeline: of the plan.
        batch: samples of a step.

    Raises:
        RequestError: chunks cannot be interleaved with any micro-batch.
    """
    rounds = pipeline.parts if pipeline.chunks > 1 else 1
    every = reversed(divisors(math.gcd(pipeline.micro_batch, batch)))
    sizes = [size for size in every if batch // size % rounds == 0]
    if not sizes:
        raise _other_size(f"{batch} samples are no whole rounds of {rounds} micro-batches")
    size = next((size for size in sizes if batch // size >= pipeline.parts), sizes[0])
    return Configuration(pipeline.parts, size, batch // size, pipeline.chunks)


def _other_size(why: str) -> RequestError:
    return RequestError(
        f"the plan does not split this size: {why}\n  at:  --mix\n  fix: plan for this size"
    )


def _planned(plan: Plan, lowered: Lowered) -> Solution:
    """The planned candidate of every node; what the plan leaves open at least cost."""
    allowed = PlannedCandidates(plan, lowered).allowed()
    found = least_cost(lowered.problem, allowed)
    if found is None:
        raise _other_size("its layouts do not follow from one another")
    return found
