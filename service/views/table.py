"""Every operator and every parameter of a plan, as columns."""

from __future__ import annotations

from typing import Any

from ir.plan import Plan
from report.operators import operator_facts, parameter_facts
from service.views.columns import Interned, rounded


def table_view(plan: Plan) -> dict[str, Any]:
    """Operators in the plan's order, then parameters in the model's."""
    return {"operators": _operators(plan), "parameters": _parameters(plan)}


def _operators(plan: Plan) -> dict[str, Any]:
    facts = operator_facts(plan)
    words = Interned[str]()
    return {
        "name": [f.planned.name for f in facts],
        "label": [words.number(f.planned.label) for f in facts],
        "scope": [f.planned.scope for f in facts],
        "inputs": [words.number(f.inputs) for f in facts],
        "outputs": [words.number(f.outputs or "scalar") for f in facts],
        "forward_s": rounded(f.planned.compute_s - f.planned.backward_s for f in facts),
        "backward_s": rounded(f.planned.backward_s for f in facts),
        "recompute_s": rounded(f.planned.recompute_s for f in facts),
        "communication_s": rounded(f.communication_s for f in facts),
        "time_s": rounded(f.time_s for f in facts),
        "held_bytes": rounded((f.held_bytes for f in facts), 0),
        "words": words.values,
    }


def _parameters(plan: Plan) -> dict[str, Any]:
    facts = parameter_facts(plan)
    words = Interned[str]()
    return {
        "name": [f.planned.name for f in facts],
        "dims": [list(f.planned.dims) for f in facts],
        "dtype": [words.number(f.planned.dtype) for f in facts],
        "bytes": rounded((f.nbytes for f in facts), 0),
        "held_bytes": rounded((f.held_bytes for f in facts), 0),
        "rest": [words.number(f.rest) for f in facts],
        "used": [words.number(f.used) for f in facts],
        "communication_s": rounded(f.communication_s for f in facts),
        "update_s": rounded(f.planned.update_s for f in facts),
        "words": words.values,
    }
