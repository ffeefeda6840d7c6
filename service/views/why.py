"""Explanations as plain values, whole or at a glance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ir.plan import Plan
from planner import explain
from planner.explain.operator import parts_of
from planner.explain.plan_problem import PlanProblem
from planner.explain.questions import at_operator
from planner.explain.reasons import Subject

FloatArray = NDArray[np.float64]

RIVALS = 4
"""Other candidates that a glance shows."""
_TRIED = 8
"""Those that are looked at closely."""


def why_view(plan: Plan, operator: str) -> dict[str, Any]:
    """Why an operator is split as it is: for each rival everything else is chosen anew.

    Raises:
        RequestError: the plan has no such operator, or cannot be priced.
    """
    return explain.why(plan, operator).to_dict() | {"glance": False}


def glance_view(plan: Plan, operator: str) -> dict[str, Any]:
    """The same with everything else as planned: no solver is asked, so it is there at once.

    Raises:
        RequestError: the plan has no such operator, or cannot be priced.
    """
    _, case, number = at_operator(plan, operator)
    subject = Subject(case, number)
    planned = case.choice[number]
    ways = dict(zip(reversed(subject.looks), reversed(range(subject.size)), strict=True))
    ways[subject.looks[planned]] = planned
    near_s = _near_s(case, number)
    nearest = sorted((c for c in ways.values() if c != planned), key=lambda c: (near_s[c], c))
    told = [_candidate(case, subject, number, c) for c in (planned, *nearest[:_TRIED])]
    others = [each for each in told if not each["is_chosen"] and each["fixed_delta_s"] is not None]
    return {
        "name": subject.node.origin.name,
        "kind": subject.node.kind.value,
        "label": subject.label(),
        "scope": subject.scope(),
        "step_time_s": plan.estimate.step_time_s,
        "chosen": next(each for each in told if each["is_chosen"]),
        "rivals": sorted(others, key=lambda each: each["fixed_delta_s"])[:RIVALS],
        "neighbours": [],
        "memory": None,
        "candidates": len(ways),
        "glance": True,
    }


def _near_s(case: PlanProblem, number: int) -> FloatArray:
    """What each candidate costs with its edges, shape (C,): other ends as planned, or where they
    cannot stay as it costs least.
    """
    problem, choice = case.posed.problem, case.choice
    total = np.array(problem.node_tables[problem.node_table_of[number]].time_s, dtype=np.float64)
    for index, other in problem.edges_at[number]:
        table = problem.edge_tables[problem.edge_table_of[index]].time_s
        rows = table if case.lowered.edges[index].source == number else table.T
        kept = rows[:, choice[other]]
        total += np.where(kept == case.posed.impossible_s, rows.min(axis=1), kept)
    return total


def _candidate(case: PlanProblem, subject: Subject, number: int, candidate: int) -> dict[str, Any]:
    """One way to split the operator, and what it costs around it."""
    problem, planned = case.posed.problem, case.choice
    choice = [*planned[:number], candidate, *planned[number + 1 :]]
    moved = case.posed.followed(choice, number)
    delta_s = problem.cost_s(moved) - problem.cost_s(planned)
    parts = parts_of(case, number, moved)
    inputs, outputs = subject.layouts(candidate)
    return {
        "cuts": "" if subject.cuts(candidate) is None else subject.cuts_text(candidate),
        "inputs": list(inputs),
        "outputs": list(outputs),
        "is_chosen": candidate == planned[number],
        "parts": [part.to_dict() for part in parts],
        "local_s": math.fsum(part.time_s for part in parts),
        "fixed_delta_s": delta_s if case.posed.is_possible(moved) else None,
    }


def explanation_view(plan: Plan) -> dict[str, Any]:
    """Why the plan is as it is: what costs, what limits memory, what faster links would bring.

    Raises:
        RequestError: the plan cannot be priced.
    """
    return explain.summary(plan).to_dict()
