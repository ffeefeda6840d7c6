"""Searches that minimise something else than time: another cost of layouts, or memory.

A cost of layouts knows layouts alone. So inside every stage they are those of the least cost, and
all else (stages, micro-batches, layouts at rest, what is computed again) is the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from costmodel.redistribution import UNREACHABLE_S
from ir.normalise.ends import ENDS
from ir.ops.shape import RESHAPES
from ir.plan import Plan
from ir.plan_estimate import Objective
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, NodeKind
from planner.lowering.parameters import with_tied
from planner.lowering.pricing import MEMORY, TIME
from planner.pipeline.preparation import LAYOUT_COSTS
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.solved import Solved
from planner.problem import Problem
from planner.reduction.restriction import IndexArray, offered
from planner.request import Deadline, InfeasibleError, SearchRequest
from planner.solvers import Solution, best_among

STEPS = 7
"""Limits tried at most."""
NEAR = 0.02
"""The search ends when the limit is known so well."""


def follows_cost(task: PipelineSearch) -> bool:
    """Whether layouts inside stages follow another cost than time."""
    return task.request.cost in LAYOUT_COSTS


def least_cost(
    task: PipelineSearch, lowered: Lowered, limit_bytes: float = math.inf
) -> dict[int, IndexArray]:
    """For every operator the candidates that split it as the layouts of least cost do.

    Args:
        task: says the cost.
        lowered: pieces of a pipeline, in seconds.
        limit_bytes: within which they are sought.
    """
    priced = _at_cost(task, lowered)
    found = task.solve(replace(priced.problem, memory_limit_bytes=limit_bytes))
    return same_splits(lowered, priced, found.choice or ())


def objective_of(task: PipelineSearch, solved: Solved) -> Objective:
    """What the layouts of a pipeline cost in a step, and the least that its stages can cost."""
    group, times = solved.groups[0], solved.shape.micro_batches
    priced = _at_cost(task, group.lowered)
    least = task.solve(replace(priced.problem, memory_limit_bytes=math.inf))
    allowed = same_splits(priced, group.lowered, group.choice)
    value = completed(priced.problem, offered(priced.problem, allowed)).cost_s * times
    bound = min(least.bound_s * times, value)
    proof = "optimal" if value <= bound * (1 + 1e-9) else "bounded"
    return Objective(task.request.cost, value, bound, proof)


def objective_note(objective: Objective) -> str:
    """What was minimised, for the reader of the plan."""
    return (
        f"layouts inside every stage are those of --cost {objective.cost}: "
        f"{objective.value:.6g} in a step ({_least(objective)} of these stages); "
        "all else is the fastest"
    )


def batch_objective_note(objective: Objective) -> str:
    """The same of one batch on one mesh."""
    value = f"{objective.value:.6g} ({_least(objective)} of the space)"
    return f"minimised by --cost {objective.cost}: {value}; times and bounds are the planner's"


def with_objective(plan: Plan, cost: str, solution: Solution, bounds_s: Sequence[float]) -> Plan:
    """The plan of a batch with what was minimised, its bound, and a note on it."""
    bound = min(solution.cost_s, *bounds_s)
    objective = Objective(cost, solution.cost_s, bound, solution.proof)
    return replace(plan, objective=objective, notes=(batch_objective_note(objective), *plan.notes))


def _least(objective: Objective) -> str:
    return "the least" if objective.proof == "optimal" else f"at least {objective.bound:.6g}"


def _at_cost(task: PipelineSearch, lowered: Lowered) -> Lowered:
    found = lower(
        lowered.liveness,
        replace(lowered.setting, cost=task.request.cost, states=None, ring_attention=False),
    )
    return with_tied(task.restricted(found))


def least_memory(request: SearchRequest, find: Callable[[SearchRequest], Plan]) -> Plan:
    """The plan of least peak memory.

    Args:
        request: whose cost is memory.
        find: the fastest plan for a request.

    Raises:
        InfeasibleError: nothing fits into memory.
    """
    deadline = Deadline.after(request.time_limit_s)
    asked = replace(request, cost=TIME)
    best = find(asked)
    own, high, low = best.estimate.memory_limit_bytes, best.estimate.peak_memory_bytes, 0.0
    for _ in range(STEPS):
        limit = math.sqrt(low * high) if low else high / 2
        found = _within(limit, replace(asked, time_limit_s=deadline.left_s), find)
        if found is None:
            low = limit
        else:
            best, high = found, found.estimate.peak_memory_bytes
        if high <= low * (1 + NEAR):
            break
    note = f"minimised by --cost memory: {high:.6g} bytes; nothing was found within {low:.6g}"
    return replace(
        best,
        request=request.to_dict(),
        estimate=replace(best.estimate, memory_limit_bytes=own),
        objective=Objective(MEMORY, high, low, "bounded"),
        notes=(note, *best.notes),
    )


def _within(
    limit_bytes: float, asked: SearchRequest, find: Callable[[SearchRequest], Plan]
) -> Plan | None:
    """A plan within a limit, if there is one that can be carried out."""
    try:
        found = find(replace(asked, memory_limit_bytes=limit_bytes))
    except InfeasibleError:
        return None
    return found if found.estimate.step_time_s < UNREACHABLE_S else None


def completed(
    problem: Problem, allowed: Sequence[IndexArray], limit_bytes: float = math.inf
) -> Solution:
    """The best choice among allowed candidates; it is one of the whole problem."""
    return best_among(replace(problem, memory_limit_bytes=limit_bytes), allowed)


def same_splits(lowered: Lowered, other: Lowered, choice: Sequence[int]) -> dict[int, IndexArray]:
    """Candidates of one problem that split operators as a choice of another one does; all of them
    for what follows its neighbours.
    """
    kinds = {op.name: op.kind for op in other.liveness.graph.ops}
    follow = {*RESHAPES, *ENDS}
    chosen = {
        node.name: node.assignment(candidate)
        for node, candidate in zip(other.nodes, choice, strict=True)
        if node.kind is NodeKind.OPERATOR and kinds[node.name] not in follow
    }
    out: dict[int, IndexArray] = {}
    for number, node in enumerate(lowered.nodes):
        if node.candidates is not None and node.name in chosen:
            wanted = chosen[node.name]
            same = [each == wanted for each in node.candidates.assignments]
            out[number] = node.columns.having(np.array(same, dtype=np.bool_))
    return out
