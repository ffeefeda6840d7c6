"""Memory of a device over the step, and who holds it when."""

from __future__ import annotations

from typing import Any

from costmodel.simulation.effects import Effects
from costmodel.simulation.memory import MemoryCurve
from costmodel.simulation.plan_simulation import simulate_plan
from ir.json_text import finite
from ir.plan import Plan
from planner.explain.memory_levels import MemoryLevels, memory_levels
from planner.explain.plan_problem import stages_of
from planner.requests.simulations import highest_points
from report.plan import PlanReport
from report.plan_tables import holder_table, memory_table, stage_table
from report.tables import plain
from service.views.columns import rounded

MOST_POINTS = 1200
"""Points of the curves; of more the highest in each interval is kept."""


def memory_view(plan: Plan) -> dict[str, Any]:
    """Bytes in use while each operator runs, by cause, and the largest holders at the peak; of
    every part of the machine where the plan has stages.
    """
    report, estimate = PlanReport(plan), plan.estimate
    view: dict[str, Any] = {
        "peak_bytes": estimate.peak_memory_bytes,
        "limit_bytes": finite(estimate.memory_limit_bytes),
        "report": {"causes": plain(memory_table(report))},
        "parts": [],
        "curves": [],
    }
    if plan.pipeline.is_single:
        return view | _drawn(memory_levels(plan))
    view["report"]["stages"] = plain(stage_table(report))
    view["parts"] = [_of_part(plan, part) for part in range(plan.pipeline.parts)]
    view["curves"] = [_curve(curve) for curve in simulate_plan(plan, Effects()).memory]
    fullest: dict[str, Any] = max(view["parts"], key=lambda each: float(each["peak_bytes"]))
    return view | fullest | {"peak_bytes": estimate.peak_memory_bytes}


def _of_part(plan: Plan, part: int) -> dict[str, Any]:
    numbers = stages_of(plan, part)
    peak = max(plan.pipeline.stages[number].peak_memory_bytes for number in numbers)
    named = {"part": part, "numbers": list(numbers), "peak_bytes": peak}
    return named | _drawn(memory_levels(plan, part))


def _curve(curve: MemoryCurve) -> dict[str, Any]:
    """Bytes over the seconds of the simulated step."""
    kept = highest_points(curve.nbytes, MOST_POINTS)
    return {
        "name": curve.device,
        "time_s": rounded(curve.time_s[kept].tolist()),
        "bytes": rounded(curve.nbytes[kept].tolist(), 0),
        "peak_bytes": curve.peak_bytes,
    }


def _drawn(levels: MemoryLevels) -> dict[str, Any]:
    """Levels by cause at the moments that are drawn, and who holds most at the peak."""
    kept = highest_points(levels.total, MOST_POINTS)
    return {
        "points": kept.tolist(),
        "operators": [levels.running(int(moment)) for moment in kept],
        "backward_from": len(levels.operators),
        "causes": {c: rounded(level[kept].tolist(), 0) for c, level in levels.by_cause.items()},
        "holders": plain(holder_table(levels.holders, float(levels.total.max(initial=0.0)))),
    }
