"""What a step takes if MindSpore runs a plan from its strategy checkpoint alone.

The checkpoint carries operators that read a parameter. MindSpore splits every other one by batch
over all devices, whatever its neighbours do; `.shard()` in the program, as `apply_mindspore.py` has
it, avoids that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.memory import Optimizer
from costmodel.redistribution import UNREACHABLE_S
from ir.graph import Op, Role
from ir.layout import Layout
from ir.ops import Engine, OpView, annotation, lookup
from ir.plan import NamedLayout, Plan
from planner.dialects import REPLICATED, Assignment
from planner.liveness import analyse
from planner.lowered import Lowered, Node, NodeKind, Setting
from planner.lowering import lower
from planner.preparation import dialect_of_plan
from planner.restriction import original_choice, restricted
from planner.solvers import Budget, solver_by_name
from topology.cluster import Cluster
from topology.mesh import Mesh, MeshAxis

IndexArray = NDArray[np.intp]


def checkpoint_only_s(plan: Plan) -> float | None:
    """Seconds of a step from the checkpoint alone; None if that cannot be told.

    Plans for other targets, traced training steps, and splits that MindSpore could not compile.
    """
    lowered = lowered_again(plan)
    if lowered is None:
        return None
    choice = checkpoint_only_choice(plan, lowered)
    return None if choice is None else lowered.problem.cost_s(choice)


def lowered_again(plan: Plan) -> Lowered | None:
    """The problem that a plan for MindSpore solves, made from the plan's own record."""
    dialect = dialect_of_plan(plan)
    if dialect is None or not dialect.cut_counts or plan.graph.is_training_step:
        return None
    axes = [name for name, _, _ in plan.mesh]
    training = bool(plan.request.get("training"))
    setting = Setting(
        Cluster.from_dict(plan.cluster),
        Mesh(tuple(MeshAxis(*axis) for axis in plan.mesh)),
        dialect,
        training,
        Optimizer(str(plan.request.get("optimizer"))),
        {t.name: _layout(t.layout, axes) for t in plan.tensors if t.role == "input"},
        plan.estimate.memory_limit_bytes,
        recompute=bool(plan.recomputed),
    )
    return lower(analyse(plan.graph, training=training), setting)


def checkpoint_only_choice(plan: Plan, lowered: Lowered) -> tuple[int, ...] | None:
    """The choice that MindSpore makes: operators and weights of the checkpoint as planned, others
    by batch. What follows its neighbours is chosen at least cost; None if a node has no candidate.
    """
    allowed = _Allowed(plan)
    found = [allowed.of(node, size) for node, size in _sized(lowered)]
    if not all(len(each) for each in found):
        return None
    problem = replace(restricted(lowered.problem, found), memory_limit_bytes=math.inf)
    solution = solver_by_name("dynamic_programming").solve(problem, Budget(), None)
    if solution.choice is None or solution.cost_s >= UNREACHABLE_S:
        return None
    return original_choice(found, solution.choice)


def _sized(lowered: Lowered) -> Sequence[tuple[Node, int]]:
    return list(zip(lowered.nodes, lowered.problem.sizes, strict=True))


def _layout(named: NamedLayout, axes: Sequence[str]) -> Layout:
    dims = tuple(tuple(axes.index(name) for name in dim) for dim in named.dims)
    return Layout(dims, tuple(axes.index(name) for name in named.partial))


class _Allowed:
    """Candidates that MindSpore leaves to each node."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._ops = {op.name: op for op in plan.graph.ops}
        self._planned = {o.name: tuple(f for _, f in o.split) for o in plan.operators}
        self._rest = {t.name: t.layout for t in plan.parameters}
        self._axes = [name for name, _, _ in plan.mesh]

    def of(self, node: Node, size: int) -> IndexArray:
        found = np.arange(size)
        if node.kind is NodeKind.PARAMETER:
            found = self._resting(node, size)
        elif node.candidates is not None:
            found = self._operator(node, size)
        if node.recomputes:
            again = set(node.recomputes) <= set(self.plan.recomputed)
            found = found[(found >= size // 2) == again]
        return found

    def _resting(self, node: Node, size: int) -> IndexArray:
        """Layouts at rest that are the planned one, whatever the operator uses."""
        wanted, port = _layout(self._rest[node.name], self._axes), node.port
        fine = [i for i in range(size) if port and port.states[port.of[i]].forward == wanted]
        return np.array(fine, dtype=np.intp)

    def _operator(self, node: Node, size: int) -> IndexArray:
        op = self._ops[node.name]
        assignments = node.candidates.assignments if node.candidates is not None else ()
        if self._is_carried(op):
            wanted = {self._planned[op.name]}
        elif lookup(op.kind).engine is Engine.VIEW or not op.outputs:
            return np.arange(size)
        else:
            wanted = _by_batch(OpView(op, self.plan.graph), assignments)
        fine = [i for i in range(size) if assignments[node.assignment_index(i)] in wanted]
        return np.array(fine, dtype=np.intp)

    def _is_carried(self, op: Op) -> bool:
        tensors = self.plan.graph.tensors
        if annotation(op):
            return False
        return any(name and tensors[name].role is Role.PARAMETER for name in op.inputs)


def _by_batch(view: OpView, assignments: Sequence[Assignment]) -> set[Assignment]:
    """Dimension 0 of the first operand split over all devices; repeated where that does not go.

    Source: MindSpore 2.7.0, `frontend/parallel/ops_info/operator_info.cc`, GenerateBatchStrategies;
    `make test-mindspore` sees 2.10.0 do so.
    """
    first = next((m for m in lookup(view.op.kind).rule(view).operands if m), None)
    rows = set(first[0]) if first else set()
    split = {each for each in assignments if rows and set(each) <= rows}
    return split or {each for each in assignments if set(each) == {REPLICATED}}
