"""The plan that a search would choose on the rates that a run of a plan had."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ir.plan import Plan
from planner.explain.plan_request import request_of, source_of, whole_request_of
from planner.repricing.other_machine import repriced
from planner.request import InfeasibleError, RequestError
from planner.search import search
from topology.cluster import Cluster

__all__ = ["NextPlan", "next_plan", "with_rates"]

_GAIN = 0.02
"""A plan that is faster by less is no reason to change."""
_MOST = 1e3
"""Rates are changed by no more."""


@dataclass(frozen=True, slots=True)
class NextPlan:
    """Another plan, and the time of a step of both on the rates that were measured."""

    plan: Plan
    this_s: float
    """Of the plan that was run."""
    next_s: float


def with_rates(cluster: Cluster, computation: float, messages: float) -> Cluster:
    """A machine whose computation and whose messages take so many times as long."""
    slow, late = (min(_MOST, max(1 / _MOST, x)) for x in (computation, messages))
    slower = cluster.scaled(bandwidth=1 / late, latency=late, compute=1 / slow)
    chip = replace(
        slower.chip,
        memory_bandwidth_bytes_per_s=slower.chip.memory_bandwidth_bytes_per_s / slow,
        launch_latency_s=slower.chip.launch_latency_s * slow,
    )
    return replace(slower, chip=chip)


def next_plan(plan: Plan, computation: float, messages: float) -> NextPlan | None:
    """What a search chooses with measured rates; none where it is the same or hardly faster.

    Args:
        plan: that was run.
        computation: its measured time over the predicted one.
        messages: the same of all messages together.
    """
    if not all(math.isfinite(x) and x > 0 for x in (computation, messages)):
        return None
    machine = with_rates(Cluster.from_dict(plan.cluster), computation, messages)
    single = plan.pipeline.is_single
    asked = replace(request_of(plan), batch=plan.batch) if single else whole_request_of(plan)
    try:
        this_s = repriced(plan, machine).estimate.step_time_s
        found = search(source_of(plan), machine, asked)
    except (InfeasibleError, RequestError):
        return None
    next_s = found.estimate.step_time_s
    return NextPlan(found, this_s, next_s) if next_s < (1 - _GAIN) * this_s else None
