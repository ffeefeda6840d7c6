"""One operator of a plan: its attributes, and what the plan says of it, with sizes and layouts."""

from __future__ import annotations

from typing import Any

from ir.plan import Plan
from planner.requests.errors import UserError
from report.plan_operator import operator_report, parts
from report.tables import plain_parts

MOST_LETTERS = 200
"""Of an attribute; constants may be long."""


def operator_view(plan: Plan, name: str) -> dict[str, Any]:
    """What is known of an operator without the price of others.

    Raises:
        UserError: the plan has none of this name.
    """
    op = next((each for each in plan.graph.ops if each.name == name), None)
    if op is None:
        fix = "the view operators lists them"
        raise UserError(f"the plan has no operator {name[:80]!r}", "the path", fix)
    return {
        "name": op.name,
        "kind": op.kind,
        "scope": op.scope,
        "attributes": {
            key: str(value)[:MOST_LETTERS] for key, value in sorted(op.attributes.items())
        },
        "parts": [part.label for part in op.parts],
        "report": plain_parts(parts(operator_report(plan, op))),
    }
