"""Two plans side by side, with what differs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ir.plan import Plan
from planner.difference import difference
from report.operators import operator_facts

MOST_CHANGES = 500


def comparison_view(first: Plan, second: Plan) -> dict[str, Any]:
    """Facts, times and memory of both, and the operators and parameters that lie differently."""
    record = asdict(difference(first, second))
    for key in ("operators", "parameters"):
        record[f"{key}_left_out"] = max(0, len(record[key]) - MOST_CHANGES)
        record[key] = record[key][:MOST_CHANGES]
    record["changed"] = _changed(first, second)
    return record


def _changed(first: Plan, second: Plan) -> list[str]:
    """Operators that are split otherwise, or that only one plan has."""
    told = [
        {f.planned.name: (f.inputs, f.outputs) for f in operator_facts(plan)}
        for plan in (first, second)
    ]
    names = list(dict.fromkeys((*told[0], *told[1])))
    return [name for name in names if told[0].get(name) != told[1].get(name)]
