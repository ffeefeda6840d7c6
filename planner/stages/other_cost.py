"""Layouts of stages that follow another cost than time.

Such a cost knows layouts alone. So inside every stage they are those of the least cost, and what it
does not decide (stages, micro-batches, layouts at rest, what is computed again) is the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from exporters.mindspore_readers import NEVER_CUT
from ir.plan import Objective
from planner.lowered import Lowered, Node, NodeKind
from planner.lowering import lower
from planner.pricing import COMMUNICATION, MINDSPORE
from planner.pricing_mindspore import ENDS
from planner.restriction import IndexArray
from planner.stages.solved import Solved
from planner.stages.task import Task
from planner.stages.tied import with_tied
from planner.strategy_cost import completed

LAYOUT_COSTS = frozenset({MINDSPORE, COMMUNICATION})
"""Costs that layouts follow."""


def follows_cost(task: Task) -> bool:
    """Whether layouts inside stages follow another cost than time."""
    return task.request.cost in LAYOUT_COSTS


def least_cost(
    task: Task, lowered: Lowered, limit_bytes: float = math.inf
) -> dict[int, IndexArray]:
    """For every operator the candidates that split it as the layouts of least cost do.

    Args:
        task: says the cost.
        lowered: pieces of a pipeline, in seconds.
        limit_bytes: within which they are sought.
    """
    priced = _at_cost(task, lowered)
    found = task.solve(replace(priced.problem, memory_limit_bytes=limit_bytes))
    return _same_splits(lowered, priced, found.choice or ())


def objective_of(task: Task, solved: Solved) -> Objective:
    """What the layouts of a pipeline cost in a step, and the least that its stages can cost."""
    group, times = solved.groups[0], solved.shape.micro_batches
    priced = _at_cost(task, group.lowered)
    least = task.solve(replace(priced.problem, memory_limit_bytes=math.inf))
    allowed = _same_splits(priced, group.lowered, group.choice)
    sizes = priced.problem.sizes
    every = [allowed.get(node, np.arange(size)) for node, size in enumerate(sizes)]
    value = completed(priced.problem, every).cost_s * times
    bound = min(least.bound_s * times, value)
    proof = "optimal" if value <= bound * (1 + 1e-9) else "bounded"
    return Objective(task.request.cost, value, bound, proof)


def objective_note(objective: Objective) -> str:
    """What was minimised, for the reader of the plan."""
    least = "the least" if objective.proof == "optimal" else f"at least {objective.bound:.6g}"
    return (
        f"layouts inside every stage are those of --cost {objective.cost}: "
        f"{objective.value:.6g} in a step ({least} of these stages); all else is the fastest"
    )


def _at_cost(task: Task, lowered: Lowered) -> Lowered:
    found = lower(lowered.liveness, replace(lowered.setting, cost=task.request.cost))
    return with_tied(task.restricted(found))


def _same_splits(lowered: Lowered, other: Lowered, choice: Sequence[int]) -> dict[int, IndexArray]:
    """Candidates of one problem that split operators as a choice of another one does; all of them
    where MindSpore wants no strategy.
    """
    kinds = {op.name: op.kind for op in other.liveness.graph.ops}
    chosen = {
        node.name: _assignment(node, candidate)
        for node, candidate in zip(other.nodes, choice, strict=True)
        if node.kind is NodeKind.OPERATOR and kinds[node.name] not in NEVER_CUT | ENDS
    }
    out: dict[int, IndexArray] = {}
    for number, (node, size) in enumerate(zip(lowered.nodes, lowered.problem.sizes, strict=True)):
        if node.candidates is not None and node.name in chosen:
            wanted = chosen[node.name]
            same = [i for i in range(size) if _assignment(node, i) == wanted]
            out[number] = np.array(same, dtype=np.intp)
    return out


def _assignment(node: Node, candidate: int) -> object:
    if node.candidates is None:
        raise TypeError(f"{node.kind} {node.name} has no assignments")
    return node.candidates.assignments[node.assignment_index(candidate)]
