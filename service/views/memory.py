"""Memory of a device over the step, and who holds it when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.simulation.effects import Effects
from costmodel.simulation.memory import MemoryCurve
from costmodel.simulation.plan_simulation import simulate_plan
from ir.json_text import finite
from ir.plan import Plan
from ir.plan_enums import MemoryCause
from planner.explain.plan_problem import problem_of, stages_of
from planner.lowering.held import held_of
from planner.pipeline.plan_builder import PlanBuilder
from planner.repricing.planned_choice import lowered_plan
from planner.requests.simulations import highest_points
from report.plan import PlanReport
from report.plan_tables import holder_table, memory_table, stage_table
from report.tables import plain
from service.views.columns import rounded
from topology.cluster import Cluster

FloatArray = NDArray[np.float64]

MOST_POINTS = 1200
"""Points of the curves; of more the highest in each interval is kept."""
LARGEST = 20
"""Holders at the peak that are named."""


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
        evidence = lowered_plan(plan, Cluster.from_dict(plan.cluster))
        return view | _over_operators(evidence, str)
    view["report"]["stages"] = plain(stage_table(report))
    view["parts"] = [_of_part(plan, part) for part in range(plan.pipeline.parts)]
    view["curves"] = [_drawn(curve) for curve in simulate_plan(plan, Effects()).memory]
    fullest: dict[str, Any] = max(view["parts"], key=lambda each: float(each["peak_bytes"]))
    return view | fullest | {"peak_bytes": estimate.peak_memory_bytes}


def _of_part(plan: Plan, part: int) -> dict[str, Any]:
    """One pipeline rank, with the activations of all micro-batches in flight."""
    case = problem_of(plan, part)
    numbers = stages_of(plan, part)
    peak = max(plan.pipeline.stages[number].peak_memory_bytes for number in numbers)
    named = {"part": part, "numbers": list(numbers), "peak_bytes": peak}
    return named | _over_operators(PlanBuilder(case.lowered, case.choice), case.plain)


def _drawn(curve: MemoryCurve) -> dict[str, Any]:
    """Bytes over the seconds of the simulated step."""
    kept = highest_points(curve.nbytes, MOST_POINTS)
    return {
        "name": curve.device,
        "time_s": rounded(curve.time_s[kept].tolist()),
        "bytes": rounded(curve.nbytes[kept].tolist(), 0),
        "peak_bytes": curve.peak_bytes,
    }


def _over_operators(evidence: PlanBuilder, named: Callable[[str], str]) -> dict[str, Any]:
    """Levels by cause while the operators run, and who holds most at the peak."""
    found = _levels(evidence)
    order = _in_order(evidence, sum(found.values(), np.zeros(evidence.lowered.problem.time_points)))
    levels = {cause: level[order] for cause, level in found.items()}
    total = sum(levels.values(), np.zeros(len(order)))
    kept = highest_points(total, MOST_POINTS)
    names = [named(op.name) for op in evidence.lowered.liveness.graph.ops]
    peak_at = int(total.argmax()) if len(total) else 0
    holders = _holders(evidence, int(order[peak_at]) if len(order) else 0, named)
    return {
        "points": kept.tolist(),
        "operators": [_name_at(names, int(point)) for point in kept],
        "backward_from": len(names),
        "causes": {
            cause: rounded(level[kept].tolist(), 0)
            for cause, level in sorted(levels.items(), key=lambda kv: -float(kv[1].max()))
        },
        "holders": plain(holder_table(holders, float(total.max(initial=0.0)))),
    }


def _in_order(evidence: PlanBuilder, total: FloatArray) -> NDArray[np.intp]:
    """Time points forward in order, then backward in reverse, of each piece when most is held."""
    liveness = evidence.lowered.liveness
    there: list[int] = []
    back: list[int] = []
    for piece in range(max(len(liveness.pieces), 1)):
        moments = liveness.moments_of(piece)
        start, end = max(moments, key=lambda span: total[slice(*span)].max(initial=0.0))
        there += range(start, (start + end) // 2)
        back = [*range((start + end) // 2, end), *back]
    return np.array([*there, *back], dtype=np.intp)


def _name_at(names: list[str], point: int) -> str:
    """The operator that runs at a point: forward in order, then backward in reverse."""
    return names[point] if point < len(names) else names[2 * len(names) - 1 - point]


def _levels(evidence: PlanBuilder) -> dict[str, FloatArray]:
    """Bytes at every time point, by cause."""
    points = evidence.lowered.problem.time_points
    changes: dict[str, FloatArray] = {}
    for item in held_of(evidence.lowered, evidence.choice):
        change = changes.setdefault(item.cause, np.zeros(points + 1))
        change[item.start] += item.nbytes
        change[item.end] -= item.nbytes
    excess = evidence.buffer_excess_bytes()
    levels = {cause: np.cumsum(change)[:-1] for cause, change in changes.items()}
    if excess:
        levels[MemoryCause.COMMUNICATION_BUFFERS] = np.full(points, float(excess))
    return {cause: np.maximum(level, 0.0) for cause, level in levels.items() if level.any()}


def _holders(
    evidence: PlanBuilder, peak: int, named: Callable[[str], str]
) -> list[tuple[str, str, float]]:
    """Name, cause and bytes of the largest at a time point."""
    sums: dict[tuple[str, str], float] = {}
    nodes = evidence.lowered.nodes
    for item in held_of(evidence.lowered, evidence.choice):
        if item.start <= peak < item.end and item.nbytes > 0:
            key = named(nodes[item.holder].name), item.cause
            sums[key] = sums.get(key, 0.0) + item.nbytes
    ordered = sorted(sums.items(), key=lambda kv: (-kv[1], kv[0]))
    return [(*key, nbytes) for key, nbytes in ordered[:LARGEST]]
