"""Every operator and every parameter of a plan, as columns."""

from __future__ import annotations

import math
from typing import Any

from ir.dtypes import dtype_bytes
from ir.folding import Axes
from ir.plan import Plan, PlannedTensor
from ir.plan_stages import axis_sizes
from report.operators import first_readers, local_share, operator_facts
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
        "kind": [words.number(f.planned.kind) for f in facts],
        "scope": [f.planned.scope for f in facts],
        "inputs": [words.number(f.inputs) for f in facts],
        "outputs": [words.number(f.outputs or "scalar") for f in facts],
        "split": [words.number(_split(f.planned.split)) for f in facts],
        "forward_s": rounded(f.planned.compute_s - f.planned.backward_s for f in facts),
        "backward_s": rounded(f.planned.backward_s for f in facts),
        "recompute_s": rounded(f.planned.recompute_s for f in facts),
        "communication_s": rounded(f.communication_s for f in facts),
        "time_s": rounded(f.time_s for f in facts),
        "held_bytes": rounded((f.held_bytes for f in facts), 0),
        "recomputed": [f.recomputed for f in facts],
        "stage": [f.planned.stage for f in facts],
        "words": words.values,
    }


def _split(split: tuple[tuple[str, int], ...]) -> str:
    """Which factor of the rule each axis of the mesh splits, in words.

    >>> _split((("server", 0), ("card", -1)))
    'server: factor 0, card: repeated'
    """
    told = {-1: "repeated", -2: "repeated, gradients in terms"}
    return ", ".join(f"{axis}: {told.get(factor, f'factor {factor}')}" for axis, factor in split)


def _parameters(plan: Plan) -> dict[str, Any]:
    axes = Axes.of(plan)
    readers, words = first_readers(plan), Interned[str]()
    spent: dict[str, float] = {}
    for item in plan.collectives:
        spent[item.tensor] = spent.get(item.tensor, 0.0) + item.exposed_s
    own = plan.parameters
    return {
        "name": [t.name for t in own],
        "dims": [list(t.dims) for t in own],
        "dtype": [words.number(t.dtype) for t in own],
        "bytes": [_nbytes(t) for t in own],
        "held_bytes": rounded(
            (_nbytes(t) * local_share(t.layout, axis_sizes(plan, t.stage)) for t in own), 0
        ),
        "rest": [words.number(axes.layout(t.layout)) for t in own],
        "used": [words.number(axes.layout(t.used) if t.used else "not read") for t in own],
        "reader": [readers.get(t.name, "") for t in own],
        "communication_s": rounded(spent.get(t.name, 0.0) for t in own),
        "update_s": rounded(t.update_s for t in own),
        "words": words.values,
    }


def _nbytes(tensor: PlannedTensor) -> int:
    return math.ceil(math.prod(tensor.dims) * dtype_bytes(tensor.dtype))
