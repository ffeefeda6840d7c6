"""Memory of a device while the operators run, by cause, and who holds it at the peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ir.plan import Plan
from ir.plan_enums import MemoryCause
from planner.explain.plan_problem import problem_of
from planner.lowering.held import held_of
from planner.pipeline.plan_builder import PlanBuilder
from planner.repricing.planned_choice import lowered_plan
from topology.cluster import Cluster

FloatArray = NDArray[np.float64]

LARGEST = 20
"""Holders at the peak that are named."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryLevels:
    """Bytes in use at each moment: operators forward in order, then backward in reverse."""

    operators: tuple[str, ...]
    by_cause: Mapping[str, FloatArray]
    """The cause with the highest level first, each of shape (moments,)."""
    total: FloatArray
    holders: tuple[tuple[str, str, float], ...]
    """Name, cause and bytes of the largest at the peak."""

    def running(self, moment: int) -> str:
        """The operator that runs then."""
        names = self.operators
        return names[moment] if moment < len(names) else names[2 * len(names) - 1 - moment]


def memory_levels(plan: Plan, part: int = 0) -> MemoryLevels:
    """Of one pipeline rank, with the activations of all micro-batches in flight."""
    if plan.pipeline.is_single:
        return _levels_of(lowered_plan(plan, Cluster.from_dict(plan.cluster)), str)
    case = problem_of(plan, part)
    return _levels_of(PlanBuilder(case.lowered, case.choice), case.plain)


def _levels_of(evidence: PlanBuilder, named: Callable[[str], str]) -> MemoryLevels:
    found = _levels(evidence)
    order = _in_order(evidence, sum(found.values(), np.zeros(evidence.lowered.problem.time_points)))
    levels = {cause: level[order] for cause, level in found.items()}
    total = sum(levels.values(), np.zeros(len(order)))
    peak = int(order[total.argmax()]) if len(total) else 0
    return MemoryLevels(
        operators=tuple(named(op.name) for op in evidence.lowered.liveness.graph.ops),
        by_cause=dict(sorted(levels.items(), key=lambda kv: -float(kv[1].max()))),
        total=total,
        holders=tuple(_holders(evidence, peak, named)),
    )


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
