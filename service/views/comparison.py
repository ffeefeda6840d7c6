"""Two plans side by side, with what differs."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from ir.plan import Plan
from planner.difference import difference
from report.comparison import parts
from report.tables import plain_parts

SAME = 0.5
"""Share of the parameters that plans of one model have in common at least."""


def comparison_view(first: Plan, second: Plan) -> dict[str, Any]:
    """Facts, times and memory of both, and the operators and parameters that lie differently; of
    different models operators are not compared.
    """
    found, alike = difference(first, second), _is_same_model(first, second)
    if not alike:
        found = replace(found, operators=(), parameters=())
    names = first.graph.name, second.graph.name
    return asdict(found) | {
        "same_model": alike,
        "models": list(names),
        "report": plain_parts(parts(found, names)),
    }


def _is_same_model(first: Plan, second: Plan) -> bool:
    """Whether most parameters of the smaller plan are those of the other, by name and size."""
    sizes = [{(t.name, t.dims) for t in plan.parameters} for plan in (first, second)]
    least = min(map(len, sizes))
    if not least:
        return first.graph.name == second.graph.name
    return len(sizes[0] & sizes[1]) >= least * SAME
