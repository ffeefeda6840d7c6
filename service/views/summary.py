"""The summary of a plan: what it takes and holds, by cause, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ir.folding import common_scope, folded, recomputed_groups
from ir.normalise import main_dtype
from ir.plan import Estimate, Plan
from ir.plan_degrees import degrees_of
from ir.plan_stages import overlap_text, split_text
from ir.published import expected_s, published_note
from ir.throughput import rates_of
from service.views.operator_facts import OperatorFacts, operator_facts

HEAVIEST = 12
"""Groups of operators in the summary; the table has all operators."""


def summary_view(plan: Plan) -> dict[str, Any]:
    """Headline, time and memory by cause, bound, space, stages, baselines, heaviest operators."""
    estimate, request = plan.estimate, plan.request
    chip = plan.cluster.get("chip")
    return {
        "model": plan.graph.name,
        "digest": plan.digest,
        "training": bool(request.get("training")),
        "target": request.get("target"),
        "optimizer": request.get("optimizer"),
        "dtype": main_dtype(plan.graph),
        "batch": plan.batch,
        "devices": plan.devices,
        "cluster": plan.cluster.get("name"),
        "chip": chip.get("name") if isinstance(chip, Mapping) else None,
        "tiers": _tiers(plan),
        "mesh": [list(axis) for axis in plan.mesh],
        "step_s": estimate.step_time_s,
        **rates_of(plan).record(),
        "degrees": str(degrees_of(plan)),
        "expected_s": _expected(estimate),
        "time_by_cause": _times(plan),
        "overlap": overlap_text(plan),
        "peak_bytes": estimate.peak_memory_bytes,
        "limit_bytes": finite(estimate.memory_limit_bytes),
        "memory_by_cause": dict(estimate.memory_by_cause),
        "communicators": estimate.communicators,
        "bound": {**asdict(plan.bound), "gap": finite(plan.bound.gap)},
        "space": asdict(plan.space),
        "objective": None if plan.objective is None else asdict(plan.objective),
        "pipeline": None if plan.pipeline.is_single else _pipeline(plan),
        "baselines": [asdict(b) for b in plan.baselines],
        "heaviest": _heaviest(plan),
        "recomputed": [{"what": what, "count": n} for what, n in recomputed_groups(plan)],
        "notes": [*filter(None, [split_text(plan)]), *plan.notes, published_note(estimate)],
        "operators": len(plan.operators),
        "model_operators": leaf_count(plan),
        "parameters": len(plan.parameters),
        "elements": sum(math.prod(t.dims) for t in plan.parameters),
        "request": dict(request),
    }


def _expected(estimate: Estimate) -> list[float] | None:
    """Least and most seconds by published runs, none where no run is like it."""
    found = expected_s(estimate)
    return None if found is None else list(found)


def finite(value: float) -> float | None:
    """The number, or nothing where JSON has no word for it."""
    return value if math.isfinite(value) else None


def leaf_count(plan: Plan) -> int:
    """Operators of the model that the plan's operators stand for."""
    return sum(max(1, len(op.parts)) for op in plan.graph.ops)


def _tiers(plan: Plan) -> list[dict[str, Any]]:
    tiers = plan.cluster.get("tiers")
    keys = ("name", "size", "kind", "bandwidth_bytes_per_s", "latency_s", "transport")
    if not isinstance(tiers, list | tuple):
        return []
    return [{key: tier.get(key) for key in keys} for tier in tiers if isinstance(tier, Mapping)]


def _times(plan: Plan) -> list[dict[str, Any]]:
    """Causes, the largest first, with what their collectives are for."""
    purposes: dict[str, dict[str, float]] = {}
    for item in plan.collectives:
        row = purposes.setdefault(f"{item.kind} in {item.tier}", {})
        row[item.cause] = row.get(item.cause, 0.0) + item.exposed_s
    ordered = sorted(plan.estimate.time_by_cause.items(), key=lambda pair: -pair[1])
    return [{"cause": c, "time_s": s, "purposes": purposes.get(c, {})} for c, s in ordered]


def _pipeline(plan: Plan) -> dict[str, Any]:
    record = asdict(plan.pipeline)
    del record["sends"]
    return record | {"global_batch": plan.pipeline.global_batch}


def _heaviest(plan: Plan) -> list[dict[str, Any]]:
    """Groups of equal operators by all that they take, computation and communication."""
    prefix = common_scope(op.scope for op in plan.operators)
    groups: dict[tuple[str, ...], list[OperatorFacts]] = {}
    for each in operator_facts(plan):
        where = folded(each.planned.scope or each.planned.name).removeprefix(prefix)
        key = (each.planned.label, where, each.inputs, each.outputs)
        groups.setdefault(key, []).append(each)
    rows = [
        {
            "label": label,
            "where": where
            if len(own) > 1
            else (own[0].planned.scope or own[0].planned.name).removeprefix(prefix),
            "example": own[0].planned.name,
            "count": len(own),
            "time_s": math.fsum(f.time_s for f in own),
            "compute_s": math.fsum(f.compute_s for f in own),
            "communication_s": math.fsum(f.communication_s for f in own),
            "held_bytes": math.fsum(f.held_bytes for f in own),
            "layouts": f"{inputs} → {outputs or 'scalar'}",
        }
        for (label, where, inputs, outputs), own in groups.items()
    ]
    return sorted(rows, key=lambda row: -float(str(row["time_s"])))[:HEAVIEST]
