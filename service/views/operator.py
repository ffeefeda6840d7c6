"""One operator of a plan: its attributes, what it reads and writes, with sizes and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir.plan import Plan
from planner.requests.errors import UserError

MOST_LETTERS = 200
"""Of an attribute; constants may be long."""


def operator_view(plan: Plan, name: str) -> dict[str, Any]:
    """What is known of an operator without its price.

    Raises:
        UserError: the plan has none of this name.
    """
    op = next((each for each in plan.graph.ops if each.name == name), None)
    if op is None:
        fix = "the view operators lists them"
        raise UserError(f"the plan has no operator {name[:80]!r}", "the path", fix)
    makers = {out: each.name for each in plan.graph.ops for out in each.outputs if out}
    return {
        "name": op.name,
        "kind": op.kind,
        "scope": op.scope,
        "attributes": {
            key: str(value)[:MOST_LETTERS] for key, value in sorted(op.attributes.items())
        },
        "inputs": _tensors(plan, op.inputs, makers),
        "outputs": _tensors(plan, op.outputs, makers),
        "parts": [part.label for part in op.parts],
    }


def _tensors(plan: Plan, names: Sequence[str], makers: dict[str, str]) -> list[dict[str, Any]]:
    planned = {tensor.name: tensor for tensor in plan.tensors}
    found = []
    for name in filter(None, names):
        tensor = plan.graph.tensors[name]
        layout = planned[name].layout if name in planned else None
        found.append(
            {
                "name": name,
                "dims": list(map(str, tensor.dims)),
                "dtype": tensor.dtype,
                "role": tensor.role.value,
                "layout": None if layout is None else str(layout),
                "maker": makers.get(name),
            }
        )
    return found
