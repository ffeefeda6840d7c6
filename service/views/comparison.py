"""Two plans side by side, with what differs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ir.plan import Plan
from planner.difference import difference
from report.operators import operator_facts

MOST_CHANGES = 500
SAME = 0.5
"""Share of the parameters that plans of one model have in common at least."""


def comparison_view(first: Plan, second: Plan) -> dict[str, Any]:
    """Facts, times and memory of both, and the operators and parameters that lie differently; of
    different models operators are not compared.
    """
    record = asdict(difference(first, second))
    alike = _is_same_model(first, second)
    for key in ("operators", "parameters"):
        record[f"{key}_left_out"] = max(0, len(record[key]) - MOST_CHANGES) if alike else 0
        record[key] = record[key][:MOST_CHANGES] if alike else []
    changed, common = _changed(first, second) if alike else ([], 0)
    return record | {
        "changed": changed,
        "common": common,
        "same_model": alike,
        "models": [first.graph.name, second.graph.name],
    }


def _is_same_model(first: Plan, second: Plan) -> bool:
    """Whether most parameters of the smaller plan are those of the other, by name and size."""
    sizes = [{(t.name, t.dims) for t in plan.parameters} for plan in (first, second)]
    least = min(map(len, sizes))
    if not least:
        return first.graph.name == second.graph.name
    return len(sizes[0] & sizes[1]) >= least * SAME


def _changed(first: Plan, second: Plan) -> tuple[list[str], int]:
    """Operators of both plans that are split otherwise, and how many both plans have."""
    told = [
        {f.planned.name: (f.inputs, f.outputs) for f in operator_facts(plan)}
        for plan in (first, second)
    ]
    both = [name for name in told[0] if name in told[1]]
    return [name for name in both if told[0][name] != told[1][name]], len(both)
