"""The summary of a plan: what it takes and holds, by cause, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ir.json_text import finite
from ir.normalise import main_dtype
from ir.plan import Plan
from report.plan import PlanReport

HEAVIEST = 12
"""Groups of operators in the summary; the table has all operators."""


def summary_view(plan: Plan) -> dict[str, Any]:
    """Headline, time and memory by cause, bound, space, stages, baselines, heaviest operators."""
    report, estimate, request = PlanReport(plan), plan.estimate, plan.request
    return {
        "model": plan.graph.name,
        "digest": plan.digest,
        "training": report.trains,
        "target": request.get("target"),
        "optimizer": request.get("optimizer"),
        "dtype": main_dtype(plan.graph),
        "batch": plan.batch,
        "devices": plan.devices,
        "cluster": plan.cluster.get("name"),
        "chip": report.chip,
        "tiers": _tiers(plan),
        "mesh": [list(axis) for axis in plan.mesh],
        "step_s": report.step_s,
        **report.rates.record(),
        "degrees": str(report.degrees),
        "plan_name": report.name,
        "expected_s": report.expected_s and list(report.expected_s),
        "time_by_cause": [
            {"cause": c.cause, "time_s": c.exposed_s, "hidden_s": c.hidden_s,
             "purposes": dict(c.purposes)}
            for c in report.time
        ],
        "overlap": report.overlap,
        "peak_bytes": estimate.peak_memory_bytes,
        "limit_bytes": finite(estimate.memory_limit_bytes),
        "memory_by_cause": dict(estimate.memory_by_cause),
        "communicators": estimate.communicators,
        "bound": {**asdict(plan.bound), "gap": finite(plan.bound.gap)},
        "space": asdict(plan.space),
        "objective": None if plan.objective is None else asdict(plan.objective),
        "pipeline": None if plan.pipeline.is_single else _pipeline(plan),
        "baselines": [asdict(b) for b in plan.baselines],
        "heaviest": [
            {"label": g.label, "where": g.where, "example": g.example.name, "count": g.count,
             "time_s": g.time_s, "compute_s": g.compute_s, "communication_s": g.communication_s,
             "held_bytes": g.held_bytes, "layouts": g.layouts.replace("->", "→")}
            for g in report.operators[:HEAVIEST]
        ],
        "recomputed": [{"what": what, "count": n} for what, n in report.recomputed],
        "notes": [*filter(None, [report.split]), *report.notes],
        "operators": len(plan.operators),
        "model_operators": leaf_count(plan),
        "parameters": len(plan.parameters),
        "elements": sum(math.prod(t.dims) for t in plan.parameters),
        "request": dict(request),
    }  # fmt: skip


def leaf_count(plan: Plan) -> int:
    """Operators of the model that the plan's operators stand for."""
    return sum(max(1, len(op.parts)) for op in plan.graph.ops)


def _tiers(plan: Plan) -> list[dict[str, Any]]:
    tiers = plan.cluster.get("tiers")
    keys = ("name", "size", "kind", "bandwidth_bytes_per_s", "latency_s", "transport")
    if not isinstance(tiers, list | tuple):
        return []
    return [{key: tier.get(key) for key in keys} for tier in tiers if isinstance(tier, Mapping)]


def _pipeline(plan: Plan) -> dict[str, Any]:
    record = asdict(plan.pipeline)
    del record["sends"]
    return record | {"global_batch": plan.pipeline.global_batch}
