"""What a step takes if MindSpore runs a plan from its strategy checkpoint alone.

The checkpoint carries operators that read a parameter. MindSpore splits every other one by batch
over all devices, whatever its neighbours do; `.shard()` in the program, as `apply_mindspore.py` has
it, avoids that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir.graph import Op, Role
from ir.ops import LOSS, Engine, OpView, annotation, lookup
from ir.plan import Plan
from planner.candidates.dialects import REPLICATED, Assignment
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, NodeKind
from planner.pipeline.preparation import dialect_of_plan
from planner.repricing.planned_choice import PlannedCandidates, least_cost, setting_of
from topology.cluster import Cluster


def checkpoint_only_s(plan: Plan) -> float | None:
    """Seconds of a step from the checkpoint alone; None if that cannot be told.

    Plans for other targets, traced training steps, and splits that MindSpore could not compile.
    """
    lowered = lowered_again(plan)
    if lowered is None:
        return None
    choice = checkpoint_only_choice(plan, lowered)
    return None if choice is None else lowered.problem.cost_s(choice)


def batch_loss_s(plan: Plan) -> float | None:
    """Seconds of a step whose losses cut rows alone, all else as planned; None if that cannot be
    told.
    """
    lowered = lowered_again(plan)
    if lowered is None:
        return None
    planned = PlannedCandidates(plan, lowered)
    layouts = {t.name: t.layout for t in plan.parameters}
    ops = {op.name: op for op in plan.graph.ops}
    allowed = []
    for node in lowered.nodes:
        fine = planned.recomputed(node)
        if node.kind is NodeKind.PARAMETER:
            fine &= planned.lying(node, layouts[node.name])
        elif node.candidates is not None and ops[node.name].kind == LOSS:
            view = OpView(ops[node.name], plan.graph)
            (mapping,) = lookup(LOSS).rule(view).operands
            classes = set(mapping[-1]) if mapping else set()
            assignments = node.candidates.assignments
            rows = np.array([not classes.intersection(own) for own in assignments])
            fine &= rows[node.columns.assignment]
        elif node.candidates is not None:
            fine &= planned.split(node)
        allowed.append(np.flatnonzero(fine))
    if not all(len(each) for each in allowed):
        return None
    found = least_cost(lowered.problem, allowed)
    choice = None if found is None else found.choice
    return None if choice is None else lowered.problem.cost_s(choice)


def lowered_again(plan: Plan) -> Lowered | None:
    """The problem that a plan for MindSpore solves, made from the plan's own record."""
    dialect = dialect_of_plan(plan)
    if dialect is None or not dialect.cut_counts or plan.graph.is_training_step:
        return None
    training = bool(plan.request.get("training"))
    setting = setting_of(plan, Cluster.from_dict(plan.cluster))
    return lower(analyse(plan.graph, training=training), setting)


def checkpoint_only_choice(plan: Plan, lowered: Lowered) -> tuple[int, ...] | None:
    """The choice that MindSpore makes: operators and weights of the checkpoint as planned, others
    by batch. What follows its neighbours is chosen at least cost; None if a node has no candidate.
    """
    planned = PlannedCandidates(plan, lowered)
    layouts = {t.name: t.layout for t in plan.parameters}
    ops = {op.name: op for op in plan.graph.ops}
    allowed = []
    for node in lowered.nodes:
        fine = planned.recomputed(node)
        if node.kind is NodeKind.PARAMETER:  # the layout at rest, whatever the operator uses
            fine &= planned.lying(node, layouts[node.name])
        elif node.candidates is not None and _is_carried(ops[node.name], plan):
            fine &= planned.split(node)
        elif node.candidates is not None:
            assignments = node.candidates.assignments
            left = _left(OpView(ops[node.name], plan.graph), assignments)
            fine &= np.array([own in left for own in assignments])[node.columns.assignment]
        allowed.append(np.flatnonzero(fine))
    if not all(len(each) for each in allowed):
        return None
    found = least_cost(lowered.problem, allowed)
    return None if found is None else found.choice


def _is_carried(op: Op, plan: Plan) -> bool:
    """Whether the checkpoint has the strategy of an operator."""
    tensors = plan.graph.tensors
    if annotation(op):
        return False
    return any(name and tensors[name].role is Role.PARAMETER for name in op.inputs)


def _left(view: OpView, assignments: Sequence[Assignment]) -> set[Assignment]:
    """What MindSpore may do with an operator that the checkpoint lacks."""
    if lookup(view.op.kind).engine is Engine.VIEW or not view.op.outputs:
        return set(assignments)
    return _by_batch(view, assignments)


def _by_batch(view: OpView, assignments: Sequence[Assignment]) -> set[Assignment]:
    """Dimension 0 of the first operand split over all devices; repeated where that does not go.

    Source: MindSpore 2.7.0, `frontend/parallel/ops_info/operator_info.cc`, GenerateBatchStrategies;
    `make test-mindspore` sees 2.10.0 do so.
    """
    first = next((m for m in lookup(view.op.kind).rule(view).operands if m), None)
    rows = set(first[0]) if first else set()
    split = {each for each in assignments if rows and set(each) <= rows}
    return split or {each for each in assignments if set(each) == {REPLICATED}}
