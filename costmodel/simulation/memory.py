"""Memory of each device of a programme over the simulated step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.simulation.engine import Timeline
from costmodel.simulation.pipeline import PipelineStep
from costmodel.simulation.plan_programme import Step

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MemoryCurve:
    """Bytes of one device; each amount holds from its time to the next."""

    device: str
    time_s: FloatArray
    """Shape (K,), ascending, from 0."""
    nbytes: FloatArray
    """Shape (K,)."""

    @property
    def peak_bytes(self) -> float:
        return float(self.nbytes.max(initial=0.0))

    @property
    def peak_at_s(self) -> float:
        """When the peak is reached first."""
        return float(self.time_s[self.nbytes.argmax()]) if len(self.nbytes) else 0.0


def plan_memory(step: Step, timeline: Timeline, points: Sequence[float]) -> MemoryCurve:
    """Memory of a plan: what it says of each operator, and buckets that are gathered ahead.

    Args:
        step: the programme of the plan.
        timeline: when it ran.
        points: bytes at each point of the plan, `Plan.memory_bytes`.
    """
    times, levels = [0.0], [points[0] if points else 0.0]
    for task, nbytes in zip(step.points, points, strict=True):
        times.append(float(timeline.start_s[task]) if task >= 0 else 0.0)
        levels.append(nbytes)
    # Operators that take no time share a moment: what counts is the most that it holds.
    at, moment = np.unique(times, return_inverse=True)
    most = np.zeros(len(at))
    np.maximum.at(most, moment, levels)
    deltas = [(at, np.diff(most, prepend=0.0))]
    for gather, before, nbytes in step.prefetched:
        since = float(timeline.start_s[gather])
        until = float(timeline.end_s[before]) if before >= 0 else 0.0
        if until > since:
            deltas.append((np.array([since, until]), np.array([nbytes, -nbytes])))
    return curve_of("device", deltas)


def pipeline_memory(step: PipelineStep, timeline: Timeline) -> tuple[MemoryCurve, ...]:
    """Memory of every stage."""
    held: list[list[tuple[FloatArray, FloatArray]]] = [
        [(np.zeros(1), np.array([stage.state_bytes]))] for stage in step.job.stages
    ]
    for stage, since, until, nbytes in step.held:
        times = np.array([timeline.start_s[since], timeline.end_s[until]])
        held[stage].append((times, np.array([nbytes, -nbytes])))
    pairs = zip(step.job.stages, held, strict=True)
    return tuple(curve_of(stage.name, deltas) for stage, deltas in pairs)


def curve_of(device: str, deltas: Sequence[tuple[FloatArray, FloatArray]]) -> MemoryCurve:
    """Levels from changes; of those at the same time only the sum is seen."""
    times = np.concatenate([t for t, _ in deltas])
    change = np.concatenate([d for _, d in deltas])
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(change[order])
    last = np.append(np.diff(times) > 0, True)
    return MemoryCurve(device, times[last], level[last])
