"""An operator at a glance: its candidates, everything else as planned."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ir.plan import Plan
from planner.explain.operator import planned_around
from planner.explain.plan_problem import PlanProblem
from planner.explain.questions import at_operator
from planner.explain.reasons import Subject
from report.explanation import OperatorExplanation

FloatArray = NDArray[np.float64]

RIVALS = 4
"""Other candidates that a glance shows."""
_TRIED = 8
"""Those that are looked at closely."""


def glance(plan: Plan, operator: str) -> OperatorExplanation:
    """Why an operator is split as it is, with everything else as planned: no solver is asked.

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
    chosen, *others = (planned_around(case, subject, c) for c in (planned, *nearest[:_TRIED]))
    possible = [each for each in others if math.isfinite(each.fixed_delta_s)]
    return OperatorExplanation(
        name=subject.node.origin.name,
        kind=subject.node.kind.value,
        label=subject.label(),
        scope=subject.scope(),
        step_time_s=plan.estimate.step_time_s,
        chosen=chosen,
        rivals=tuple(sorted(possible, key=lambda each: each.fixed_delta_s)[:RIVALS]),
        neighbours=(),
        memory=None,
        candidates=len(ways),
    )


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
