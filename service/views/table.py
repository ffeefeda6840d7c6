"""Every operator and every parameter of a plan, as columns."""

from __future__ import annotations

from typing import Any

from ir.plan import Plan
from report.plan_tables import every_operator, every_parameter
from service.views.columns import columnar


def table_view(plan: Plan) -> dict[str, Any]:
    """Operators in the plan's order, then parameters in the model's."""
    return {
        "operators": columnar(every_operator(plan)),
        "parameters": columnar(every_parameter(plan)),
    }
