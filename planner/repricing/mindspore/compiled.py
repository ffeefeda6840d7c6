"""What a step takes with the strategies that MindSpore used in the network that it compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ir.graph import OpGraph
from ir.mindspore_forms.strategies import Strategy
from ir.normalise.ends import ENDS
from ir.plan import Plan
from planner.candidates.columns import BoolArray
from planner.constraints.pinning import kept_candidates
from planner.constraints.pins import Pin, pins_of
from planner.lowering.lowered import Lowered, Node, NodeKind
from planner.repricing.mindspore.checkpoint import lowered_again
from planner.repricing.planned_choice import PlannedCandidates, least_cost


def compiled_step_s(plan: Plan, used: Mapping[str, Strategy]) -> float | None:
    """Seconds of a step in which operators are cut as MindSpore did; None if that cannot be told.

    The loss, the inputs and parameters whose readers are as planned are as in the plan. What
    follows its neighbours is chosen at least cost.

    Args:
        plan: in the dialect `mindspore`, of one stage.
        used: by the name of an operator of its graph, the cuts of its operands.

    Raises:
        RequestError: an operator cannot be cut so.
    """
    lowered = lowered_again(plan)
    if lowered is None:
        return None
    work = _Compiled(plan, lowered, pins_of(plan.graph, tuple(used.items())))
    found = least_cost(lowered.problem, [np.flatnonzero(work.of(node)) for node in lowered.nodes])
    return None if found is None else lowered.problem.cost_s(found.choice or ())


class _Compiled:
    """Candidates of a plan's problem that are as MindSpore compiled."""

    def __init__(self, plan: Plan, lowered: Lowered, pins: tuple[Pin, ...]) -> None:
        self.planned = PlannedCandidates(plan, lowered)
        self.mesh = lowered.setting.mesh
        self.pins = {pin.op.name: pin for pin in pins}
        self.kinds = {op.name: op.kind for op in plan.graph.ops}
        operators = [node for node in lowered.nodes if node.candidates is not None]
        held = [node for node in operators if node.name in self.pins]
        self.splits = {node.name: self._kept(node) for node in held}
        changed = {node.name for node in held if not self._is_as_planned(node)}
        self.moved = _read_by(plan.graph, changed)

    def of(self, node: Node) -> BoolArray:
        fine = self.planned.recomputed(node)
        if node.candidates is not None:
            if self.kinds[node.name] in ENDS:
                return fine & self.planned.split(node)
            return fine & self.splits.get(node.name, fine)
        held = node.kind is NodeKind.INPUT or node.kind is NodeKind.PARAMETER
        return self.planned.of(node) if held and node.name not in self.moved else fine

    def _kept(self, node: Node) -> BoolArray:
        """Candidates of an operator that are cut as MindSpore cut it."""
        rows = np.zeros(len(node.columns.recompute), dtype=np.bool_)
        rows[kept_candidates(self.pins[node.name], node, self.mesh)] = True
        return rows

    def _is_as_planned(self, node: Node) -> bool:
        return bool((self.splits[node.name] & self.planned.split(node)).any())


def _read_by(graph: OpGraph, names: set[str]) -> set[str]:
    """Tensors that operators read."""
    return {name for op in graph.ops if op.name in names for name in op.inputs}
