"""The plan that needs least memory: the fastest within a limit lowered as far as it goes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from costmodel.redistribution import UNREACHABLE_S
from ir.plan import Objective, Plan
from planner.deadline import Deadline
from planner.pricing import MEMORY, TIME
from planner.request import InfeasibleError, SearchRequest

STEPS = 7
"""Limits tried at most."""
NEAR = 0.02
"""The search ends when the limit is known so well."""


def least_memory(request: SearchRequest, find: Callable[[SearchRequest], Plan]) -> Plan:
    """The plan of least peak memory.

    Args:
        request: whose cost is memory.
        find: the fastest plan for a request.

    Raises:
        InfeasibleError: nothing fits into memory.
    """
    deadline = Deadline.after(request.time_limit_s)
    asked = replace(request, cost=TIME)
    best = find(asked)
    own, high, low = best.estimate.memory_limit_bytes, best.estimate.peak_memory_bytes, 0.0
    for _ in range(STEPS):
        limit = math.sqrt(low * high) if low else high / 2
        found = _within(limit, replace(asked, time_limit_s=deadline.left_s), find)
        if found is None:
            low = limit
        else:
            best, high = found, found.estimate.peak_memory_bytes
        if high <= low * (1 + NEAR):
            break
    note = f"minimised by --cost memory: {high:.6g} bytes; nothing was found within {low:.6g}"
    return replace(
        best,
        request=request.to_dict(),
        estimate=replace(best.estimate, memory_limit_bytes=own),
        objective=Objective(MEMORY, high, low, "bounded"),
        notes=(note, *best.notes),
    )


def _within(
    limit_bytes: float, asked: SearchRequest, find: Callable[[SearchRequest], Plan]
) -> Plan | None:
    """A plan within a limit, if there is one that can be carried out."""
    try:
        found = find(replace(asked, memory_limit_bytes=limit_bytes))
    except InfeasibleError:
        return None
    return found if found.estimate.step_time_s < UNREACHABLE_S else None
