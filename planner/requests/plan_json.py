"""The answer to a search as one JSON object."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ir.json_text import finite
from ir.plan_stages import MeshAxes, has_equal_stages, stage_mesh, stage_size
from ir.throughput import RATE_NAMES
from report.plan import PlanReport

if TYPE_CHECKING:
    from ir.plan import Plan
    from planner.request import InfeasibleError


def found(plan: Plan, files: Sequence[object] = (), first: Sequence[str] = ()) -> dict[str, object]:
    """The answer with a plan.

    Args:
        plan: what was decided.
        files: what was written.
        first: notes that belong before those of the plan.
    """
    report, estimate, bound = PlanReport(plan), plan.estimate, plan.bound
    return {
        "status": "ok",
        "step_time_s": report.step_s,
        **report.rates.record(),
        "degrees": asdict(report.degrees),
        "bound_s": bound.bound_s,
        "gap": bound.gap,
        "peak_memory_bytes": estimate.peak_memory_bytes,
        "memory_limit_bytes": estimate.memory_limit_bytes,
        "time_by_cause": dict(estimate.time_by_cause),
        "memory_by_cause": dict(estimate.memory_by_cause),
        "baselines": [asdict(b) for b in plan.baselines],
        "communicators": communicators(plan),
        "notes": [*first, *plan.notes],
        "files": [str(p) for p in files],
        **({} if plan.objective is None else {"objective": asdict(plan.objective)}),
        **({} if plan.pipeline.is_single else {"pipeline": asdict(plan.pipeline)}),
        **_split(report),
    }


def _split(report: PlanReport) -> dict[str, object]:
    """How a batch that does not fit as one was split; nothing where it fits."""
    pipeline = report.plan.pipeline
    if not report.split:
        return {}
    return {
        "split": {
            "text": report.split,
            "micro_batches": pipeline.micro_batches,
            "micro_batch": pipeline.micro_batch,
            "whole_batch_bytes": report.plan.whole_batch_bytes,
        }
    }


def infeasible(error: InfeasibleError) -> dict[str, object]:
    """The answer when no plan fits into memory."""
    return {
        "status": "infeasible",
        "step_time_s": None,
        **dict.fromkeys((*RATE_NAMES, "degrees")),
        "bound_s": None,
        "gap": None,
        "peak_memory_bytes": None,
        "memory_limit_bytes": None,
        "time_by_cause": {},
        "memory_by_cause": {},
        "baselines": [],
        "communicators": [],
        "notes": [],
        "files": [],
        **error.record(),
    }


def communicators(plan: Plan) -> list[dict[str, object]]:
    """The distinct communication groups of a plan, with what they carry, the busiest first."""
    loads: dict[tuple[MeshAxes, tuple[str, ...]], dict[str, float]] = {}
    for item in plan.collectives:
        mesh = stage_mesh(plan, item.stage)
        axes = tuple(name for name, _, _ in mesh if name in item.axes)
        load = loads.setdefault((mesh, axes), {})
        load[item.kind] = load.get(item.kind, 0.0) + item.nbytes * item.count
    out: list[dict[str, object]] = []
    for (mesh, axes), load in sorted(
        loads.items(), key=lambda kv: (-sum(kv[1].values()), kv[0][1], kv[0][0])
    ):
        size = math.prod(size for name, size, _ in mesh if name in axes)
        if size == 1:
            continue
        out.append(
            {
                "axes": list(axes),
                "group_size": size,
                "groups": _devices_on(plan, mesh) // size,
                "nbytes_total": sum(load.values()),
                "kinds": sorted(load),
            }
        )
    return out


def _devices_on(plan: Plan, mesh: MeshAxes) -> int:
    """Devices of all parts of the machine that have a mesh."""
    if has_equal_stages(plan):
        return plan.devices
    parts = [stage for stage in range(plan.pipeline.parts) if stage_mesh(plan, stage) == mesh]
    return sum(stage_size(plan, part) for part in parts)


def dumps(value: Mapping[str, object]) -> str:
    """Strict JSON: a number that is not finite becomes null."""
    return json.dumps(finite(value), indent=1, ensure_ascii=False, allow_nan=False)
