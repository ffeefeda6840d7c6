"""What a plan was asked for, read back from its record."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from costmodel.memory import Optimizer
from ir.plan import Plan
from planner.request import SearchRequest

_SETTLED = {"batch", "global_batch", "dtype", "bind", "rules", "micro_batch", "pipeline"}
"""The plan's graph has them already."""


def request_of(plan: Plan) -> SearchRequest:
    """The request that a plan answers, for its own graph: batch and types are settled there."""
    known = {each.name for each in fields(SearchRequest)} - _SETTLED
    record: dict[str, Any] = {
        name: _tuples(value) for name, value in plan.request.items() if name in known
    }
    record["optimizer"] = Optimizer(str(plan.request.get("optimizer")))
    return replace(SearchRequest(), **record)


def _tuples(value: object) -> object:
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value
