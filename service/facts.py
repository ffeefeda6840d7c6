"""What a list of plans says of one."""

from __future__ import annotations

import math
from typing import Any

from ir.plan import Plan
from report.plan import PlanReport


def plan_facts(plan: Plan, model_name: str, model: str | None) -> dict[str, Any]:
    """Figures of a plan; `model` is what the service searched it for, if it did."""
    report = PlanReport(plan)
    return {
        "model": model,
        "model_name": model_name,
        "cluster": str(plan.cluster.get("name")),
        "devices": plan.devices,
        "batch": plan.batch,
        "plan_name": report.name,
        "training": report.trains,
        "samples_per_s": report.rates.samples_per_s,
        "model_flops_utilisation": report.rates.utilisation,
        "gap": plan.bound.gap if math.isfinite(plan.bound.gap) else None,
        "step_time_s": plan.estimate.step_time_s,
        "peak_memory_bytes": plan.estimate.peak_memory_bytes,
    }
