"""Explanations with their tables, whole or at a glance."""

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
from report.explanation import Candidate, OperatorExplanation, PlanExplanation
from report.explanation_tables import parts
from report.tables import plain_parts

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
    return _told(explain.why(plan, operator))


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
    near_s = _near_s(case, subject, number)
    nearest = sorted((c for c in ways.values() if c != planned), key=lambda c: (near_s[c], c))
    chosen, *others = (_candidate(case, subject, number, c) for c in (planned, *nearest[:_TRIED]))
    possible = [each for each in others if math.isfinite(each.fixed_delta_s)]
    return _told(
        OperatorExplanation(
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
    )


def _told(found: OperatorExplanation | PlanExplanation) -> dict[str, Any]:
    """The record, and what `planner explain` prints of it."""
    return found.to_dict() | {"report": plain_parts(parts(found))}


def _near_s(case: PlanProblem, subject: Subject, number: int) -> FloatArray:
    """What each candidate costs with its edges, shape (C,): other ends as planned, or where they
    cannot stay as it costs least.
    """
    problem, choice = case.posed.problem, case.choice
    total = np.array(problem.node_tables[problem.node_table_of[number]].time_s, dtype=np.float64)
    for index, other in subject.edges():
        table = problem.edge_tables[problem.edge_table_of[index]].time_s
        rows = table if case.lowered.edges[index].source == number else table.T
        kept = rows[:, choice[other]]
        total += np.where(kept == case.posed.impossible_s, rows.min(axis=1), kept)
    return total


def _candidate(case: PlanProblem, subject: Subject, number: int, candidate: int) -> Candidate:
    """One way to split the operator, and what it costs around it; infinite where it cannot be."""
    problem, planned = case.posed.problem, case.choice
    moved = case.posed.followed([*planned[:number], candidate, *planned[number + 1 :]], number)
    inputs, outputs = subject.layouts(candidate)
    costs = tuple(parts_of(case, number, moved))
    delta_s = problem.cost_s(moved) - problem.cost_s(planned)
    return Candidate(
        cuts="" if subject.cuts(candidate) is None else subject.cuts_text(candidate),
        inputs=inputs,
        outputs=outputs,
        is_chosen=candidate == planned[number],
        local_s=math.fsum(part.time_s for part in costs),
        parts=costs,
        fixed_delta_s=delta_s if case.posed.is_possible(moved) else math.inf,
        delta_s=None,
        step_time_s=None,
        peak_memory_bytes=None,
        memory_bytes=0.0,
        memory_charge_s=0.0,
    )


def explanation_view(plan: Plan) -> dict[str, Any]:
    """Why the plan is as it is: what costs, what limits memory, what faster links would bring.

    Raises:
        RequestError: the plan cannot be priced.
    """
    return _told(explain.summary(plan))
