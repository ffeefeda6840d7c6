"""Keys and values that go round in a ring: which communication of a plan is theirs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ir.ops import Engine, lookup
from ir.plan import Plan, PlannedCollective
from ir.plan_enums import Cause

KEYS_AND_VALUES = (1, 2)
"""Operands of attention."""
_NEARLY = 1 - 1e-9


def ring_operands(
    plan: Plan, time_s: Callable[[str, float, Sequence[str]], float]
) -> frozenset[tuple[str, int]]:
    """Operands of attention whose blocks go round, by operator and number.

    A plan says of them what their computation does not hide, which is less than it takes to gather
    them. That is seen while attention waits for a block: nothing else can hide it.

    Args:
        plan: of one step or of one micro-batch.
        time_s: seconds of a kind of collective with so many bytes over some axes.
    """
    if plan.request.get("ring_attention", "off") == "off":
        return frozenset()
    kinds = {op.name: op.kind for op in plan.operators}
    pairs: dict[tuple[str, int], list[PlannedCollective]] = {}
    for item in plan.collectives:
        moved = item.operand in KEYS_AND_VALUES and item.cause in {
            Cause.FORWARD,
            Cause.ACTIVATION_GRADIENT,
        }
        if moved and lookup(kinds[item.operator]).engine is Engine.ATTENTION:
            pairs.setdefault((item.operator, item.operand), []).append(item)
    return frozenset(pair for pair, items in pairs.items() if _is_hidden(items, time_s))


def _is_hidden(
    items: Sequence[PlannedCollective], time_s: Callable[[str, float, Sequence[str]], float]
) -> bool:
    whole = math.fsum(i.count * time_s(i.kind, i.nbytes, i.axes) for i in items)
    return math.fsum(i.time_s for i in items) < whole * _NEARLY
