"""What a step takes if MindSpore runs a plan from its strategy checkpoint alone.

The checkpoint carries operators that read a parameter. MindSpore splits every other one by batch
over all devices, whatever its neighbours do; `.shard()` in the program, as `apply_mindspore.py` has
it, avoids that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np

from ir.graph import Op, Role
from ir.graph_rules import rule_of
from ir.ops import LOSS, Engine, OpView, annotation, lookup
from ir.plan import Plan
from planner.candidates.columns import BoolArray
from planner.candidates.offers import REPLICATED, Assignment
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, Node, NodeKind
from planner.pipeline.preparation import dialect_of_plan
from planner.repricing.planned_choice import PlannedCandidates, least_cost, setting_of
from topology.cluster import Cluster

Ways: TypeAlias = Callable[[Op, Sequence[Assignment]], "Collection[Assignment] | None"]
"""Those of an operator's assignments that it may have; None for the planned one."""


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

    def ways(op: Op, assignments: Sequence[Assignment]) -> Collection[Assignment] | None:
        if op.kind != LOSS:
            return None
        (mapping,) = lookup(LOSS).rule(OpView(op, plan.graph)).operands
        classes = set(mapping[-1]) if mapping else set()
        return [own for own in assignments if not classes.intersection(own)]

    lowered = lowered_again(plan)
    choice = None if lowered is None else _choice(plan, lowered, ways)
    return None if lowered is None or choice is None else lowered.problem.cost_s(choice)


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

    def ways(op: Op, assignments: Sequence[Assignment]) -> Collection[Assignment] | None:
        if _is_carried(op, plan):
            return None
        return _left(OpView(op, plan.graph), assignments)

    return _choice(plan, lowered, ways)


def _choice(plan: Plan, lowered: Lowered, ways: Ways) -> tuple[int, ...] | None:
    """The cheapest choice with operators and weights as planned, but for what is told of some."""
    planned = PlannedCandidates(plan, lowered)
    layouts = {t.name: t.layout for t in plan.parameters}
    ops = {op.name: op for op in plan.graph.ops}

    def fine(node: Node) -> BoolArray:
        rows = planned.recomputed(node)
        if node.kind is NodeKind.PARAMETER:  # the layout at rest, whatever the operator uses
            return rows & planned.lying(node, layouts[node.name])
        if node.candidates is None:
            return rows
        assignments = node.candidates.assignments
        told = ways(ops[node.name], assignments)
        if told is None:
            return rows & planned.split(node)
        mask: BoolArray = np.array([own in told for own in assignments], dtype=np.bool_)
        return rows & mask[node.columns.assignment]

    found = least_cost(lowered.problem, [np.flatnonzero(fine(node)) for node in lowered.nodes])
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
    first = next((m for m in rule_of(view.op, view.graph).operands if m), None)
    rows = set(first[0]) if first else set()
    split = {each for each in assignments if rows and set(each) <= rows}
    return split or {each for each in assignments if set(each) == {REPLICATED}}
