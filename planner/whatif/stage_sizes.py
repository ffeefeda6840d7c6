"""A plan with stages at another size of batch or sequence: what was decided stays as it is.

Cuts, layouts, what is computed again, and where states rest are kept. A micro-batch is the largest
that divides both the one that was planned and the batch, and with which chunks can take turns; the
batch decides how many there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.redistribution import UNREACHABLE_S
from ir.layout import Layout
from ir.plan import NamedLayout, Pipeline, Plan, PlannedTensor
from ir.plan_stages import has_equal_stages, pipeline_of, planned_in
from planner.lowered import Lowered, Node, NodeKind
from planner.ports import PortState
from planner.request import RequestError
from planner.restriction import IndexArray, original_choice, restricted
from planner.solvers import Budget, Solution, solver_by_name
from planner.stages.menu import Shape, divisors
from planner.stages.offload import OnHost, on_device
from planner.stages.pieces import piece_of_name, plain_name
from planner.stages.record import drafted
from planner.stages.solved import Solved
from planner.stages.states import StateInParts
from planner.stages.task import Task
from planner.stages.whole import laid_out


def staged_step_s(plan: Plan, task: Task, batch: int) -> float:
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


def at_size(plan: Plan, task: Task, batch: int) -> Solved:
    """The plan at another size; arguments and errors are those of `staged_step_s`."""
    pipeline = pipeline_of(plan)
    if not has_equal_stages(plan):
        raise _other_size("its stages differ in their devices")
    shape = shape_at(pipeline, batch)
    mesh = task.stage_machine(shape)[1]
    if tuple((a.name, a.size, a.tier) for a in mesh.axes) != plan.mesh:
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
        _Planned(plan, single).chosen,
        recompute=bool(single),
    )


def shape_at(pipeline: Pipeline, batch: int) -> Shape:
    """How a batch goes through the stages of a plan.

    Args:
        pipeline: of the plan.
        batch: samples of a step.

    Raises:
        RequestError: chunks cannot take turns with any micro-batch.
    """
    rounds = pipeline.parts if pipeline.chunks > 1 else 1
    for size in reversed(divisors(math.gcd(pipeline.micro_batch, batch))):
        if batch // size % rounds == 0:
            return Shape(pipeline.parts, size, batch // size, pipeline.chunks)
    raise _other_size(f"{batch} samples are no whole rounds of {rounds} micro-batches")


def _other_size(why: str) -> RequestError:
    return RequestError(
        f"the plan does not split this size: {why}\n  at:  --mix\n  fix: plan for this size"
    )


@dataclass(frozen=True, slots=True)
class _Planned:
    """Finds what was planned among the candidates of another size."""

    plan: Plan
    again: frozenset[str]
    """Single tensors that are computed again."""
    _splits: dict[str, tuple[int, ...]] = field(init=False, default_factory=dict)
    _tensors: dict[tuple[str, str], PlannedTensor] = field(init=False, default_factory=dict)
    """By role and name; tensors with several readers have the number of the stage behind it."""

    def __post_init__(self) -> None:
        for op in self.plan.operators:
            self._splits[op.name] = tuple(factor for _, factor in op.split)
        for tensor in self.plan.tensors:
            name = f"{tensor.name} {tensor.stage}" if tensor.role == "shared" else tensor.name
            self._tensors[tensor.role, name] = tensor

    def chosen(self, lowered: Lowered) -> Solution:
        """The planned candidate of every node; what the plan leaves open at least cost."""
        allowed = [
            self._allowed(node, size)
            for node, size in zip(lowered.nodes, lowered.problem.sizes, strict=True)
        ]
        for node, own in zip(lowered.nodes, allowed, strict=True):
            if not len(own):
                raise _other_size(f"{plain_name(node.name)} cannot be laid out as in the plan")
        problem = replace(restricted(lowered.problem, allowed), memory_limit_bytes=math.inf)
        found = solver_by_name("dynamic_programming").solve(problem, Budget(), None)
        if found.choice is None or found.cost_s >= UNREACHABLE_S:
            raise _other_size("its layouts do not follow from one another")
        return replace(found, choice=original_choice(allowed, found.choice))

    def _allowed(self, node: Node, size: int) -> IndexArray:
        if node.candidates is not None:
            wanted = self._splits[plain_name(node.name)]
            own = node.candidates.assignments
            found = np.array(
                [n for n in range(size) if own[node.assignment_index(n)] == wanted], dtype=np.intp
            )
        else:
            found = self._tensor(node, size)
        if node.recomputes:
            again = {plain_name(name) for name in node.recomputes} <= self.again
            found = found[(found >= size // 2) == again]
        return found

    def _tensor(self, node: Node, size: int) -> IndexArray:
        planned, port = self._planned(node), node.port
        if planned is None or port is None:
            return np.arange(size)
        fits = np.array([self._is(state, planned) for state in port.states])
        return np.flatnonzero(np.tile(fits[port.of], size // len(port.of)))

    def _planned(self, node: Node) -> PlannedTensor | None:
        name, stage = plain_name(node.name), piece_of_name(node.name)
        if node.kind is NodeKind.TENSOR:
            return self._tensors.get(("shared", f"{name} {stage}"))
        if node.kind is NodeKind.PARAMETER:
            return planned_in(self.plan, self._tensors["parameter", name], stage)
        found = self._tensors.get(("input", name)) if node.kind is NodeKind.INPUT else None
        return found if found is not None and found.stage == stage else None

    def _is(self, state: PortState, planned: PlannedTensor) -> bool:
        own = on_device(state)
        same = own.forward == self._layout(planned.layout) and (
            planned.gradient is None or own.gradient == self._layout(planned.gradient)
        )
        if not same or planned.role != "parameter":
            return same
        if isinstance(state, OnHost) != (planned.host_bytes > 0):
            return False
        if not isinstance(own, StateInParts):
            return planned.states is None
        rests = None if planned.states is None else self._layout(planned.states)
        return own.parts.forward == rests and own.level == planned.zero

    def _layout(self, named: NamedLayout) -> Layout:
        axes = {name: index for index, (name, _, _) in enumerate(self.plan.mesh)}
        dims = tuple(tuple(axes[name] for name in dim) for dim in named.dims)
        return Layout(dims, tuple(axes[name] for name in named.partial))
