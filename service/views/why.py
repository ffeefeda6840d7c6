"""Explanations with their tables, whole or at a glance."""

from __future__ import annotations

from typing import Any

from ir.plan import Plan
from planner import explain
from planner.explain.glance import glance
from report.explanation import OperatorExplanation, PlanExplanation
from report.explanation_tables import parts
from report.tables import plain_parts


def why_view(plan: Plan, operator: str) -> dict[str, Any]:
    """Why an operator is split as it is: for each rival everything else is chosen anew.

    Raises:
        RequestError: the plan has no such operator, or cannot be priced.
    """
    return _told(explain.why(plan, operator))


def glance_view(plan: Plan, operator: str) -> dict[str, Any]:
    """The same with everything else as planned, which is there at once.

    Raises:
        RequestError: the plan has no such operator, or cannot be priced.
    """
    return _told(glance(plan, operator))


def explanation_view(plan: Plan) -> dict[str, Any]:
    """Why the plan is as it is: what costs, what limits memory, what faster links would bring.

    Raises:
        RequestError: the plan cannot be priced.
    """
    return _told(explain.summary(plan))


def _told(found: OperatorExplanation | PlanExplanation) -> dict[str, Any]:
    """The record, and what `planner explain` prints of it."""
    return found.to_dict() | {"report": plain_parts(parts(found))}
