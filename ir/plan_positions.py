"""Operators of a plan that cut positions which their windows read."""

from __future__ import annotations

from collections.abc import Iterator

from ir.graph import Op
from ir.graph_rules import rule_of
from ir.plan import Plan


def cutting_positions(plan: Plan) -> Iterator[Op]:
    """Convolutions and pools in whose parts only some positions of an image are."""
    splits = {planned.name: {f for _, f in planned.split} for planned in plan.operators}
    for op in plan.graph.ops:
        split = splits.get(op.name, set())
        windows = rule_of(op, plan.graph).windows
        if any(window.factor in split for window in windows):
            yield op
