"""Simulates the step of a plan with stages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from costmodel.simulation.accounting import account_of
from costmodel.simulation.bubbles import bubble_of
from costmodel.simulation.collector import paused_collector
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import Timeline, run
from costmodel.simulation.job import Block, Job, Stage
from costmodel.simulation.memory import FloatArray, MemoryCurve, curve_of
from costmodel.simulation.on_the_way import moments
from costmodel.simulation.plan_checks import PLAN_AGAIN, check_collectives
from costmodel.simulation.plan_programme import BACKWARD, FORWARD, RECOMPUTE
from costmodel.simulation.programme import Part, Work
from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.schedules import Direction, Shape
from costmodel.simulation.stage_programme import StagedStep, StagePass, staged_programme
from costmodel.simulation.variation import Lanes, Variation, varied_steps_s
from ir.plan import Pipeline, Plan
from ir.plan_degrees import degrees_of
from ir.plan_stages import has_equal_stages, pipeline_of, stage_plan, stage_size, stage_times
from ir.throughput import load_of

_ROUNDING = 1e-9


def simulate_staged(plan: Plan, effects: Effects, variation: Variation | None = None) -> Simulation:
    """The step of a plan with stages, event by event.

    Raises:
        SimulationError: the plan does not say how long its parts take, or its schedule is unknown.
    """
    check_stage_times(plan)
    check_collectives(plan)
    with paused_collector():
        return _simulated(plan, effects, variation)


def _simulated(plan: Plan, effects: Effects, variation: Variation | None) -> Simulation:
    pipeline = pipeline_of(plan)
    step = staged_programme(plan, effects)
    timeline = run(step.programme)
    account = account_of(timeline)
    varied = None
    if variation is not None and not variation.is_none:
        variation.check(plan.devices)
        _check_equal(plan)
        shape = tuple(size for _, size, _ in plan.mesh)
        varied = varied_steps_s(timeline, Lanes(shape, 1, step.joins), variation)
    several = len(pipeline.stages) > 1
    return Simulation(
        name=plan.graph.name,
        step_s=timeline.step_s,
        timeline=timeline,
        account=account,
        memory=tuple(_memory(plan, step, timeline)),
        load=load_of(plan),
        estimate_s=plan.estimate.step_time_s,
        bubble=bubble_of(_silent_job(plan), effects, account.waiting_s) if several else None,
        varied_s=varied,
        facts={
            "degrees": str(degrees_of(plan)),
            "schedule": pipeline.schedule,
            "stages": len(pipeline.stages),
            "micro-batches": pipeline.micro_batches,
        },
        notes=plan.notes,
        estimate_means="in which nothing overlaps",
    )


def _check_equal(plan: Plan) -> None:
    if not has_equal_stages(plan):
        raise SimulationError(
            "devices that differ are not drawn where stages have different numbers of them\n"
            "  at:  pipeline.stages\n  fix: leave --jitter, --spread and --stragglers out"
        )


def check_stage_times(plan: Plan) -> None:
    """Raise `SimulationError` if the times of a stage are not those of its parts."""
    points = 2 * len(plan.operators)
    for number, stage in enumerate(pipeline_of(plan).stages):
        found = stage_times(plan, number)
        pairs = [(found.forward_s, stage.forward_s), (found.backward_s, stage.backward_s)]
        if not found.shared_s:
            # What stages share takes as long as in the slowest of them.
            pairs.append((found.once_s, stage.once_s))
        whole = stage.forward_s + stage.backward_s + stage.once_s
        same = all(math.isclose(a, b, rel_tol=_ROUNDING, abs_tol=whole * _ROUNDING)
                   for a, b in pairs)  # fmt: skip
        if not same or len(plan.memory_bytes) != points:
            raise SimulationError(
                f"stage {number} takes {whole:.6g} s, its parts do not sum to that: an earlier "
                f"version wrote it\n  at:  pipeline.stages.{number}\n  fix: {PLAN_AGAIN}"
            )


def _silent_job(plan: Plan) -> Job:
    """What the stages compute, as a pipelined job that sends nothing."""
    pipeline = pipeline_of(plan)
    chunks: list[list[tuple[Block, ...]]] = [[] for _ in range(pipeline.parts)]
    updates = [0.0] * pipeline.parts
    for number in range(len(pipeline.stages)):
        own = stage_plan(plan, number)
        forward = math.fsum(o.compute_s - o.backward_s for o in own.operators)
        back = math.fsum(o.backward_s for o in own.operators)
        again = math.fsum(
            (*(o.recompute_s for o in own.operators), *(t.recompute_s for t in own.tensors))
        )
        block = Block(
            "", 1.0,
            forward=(Part(Work(FORWARD), forward),),
            backward=(Part(Work(BACKWARD), back),),
            again=(Part(Work(RECOMPUTE), again),),
        )  # fmt: skip
        chunks[number % pipeline.parts].append((block,))
        updates[number % pipeline.parts] += stage_times(plan, number).update_s
    stages = tuple(
        Stage(f"stage {part}", tuple(own), update_s=update_s, copies=stage_size(plan, part))
        for part, (own, update_s) in enumerate(zip(chunks, updates, strict=True))
    )
    return Job(stages, pipeline.micro_batches, pipeline.schedule, stage_size(plan, 0))


def _memory(plan: Plan, step: StagedStep, timeline: Timeline) -> Iterator[MemoryCurve]:
    """Memory of every part of the machine: what the plan says with all micro-batches that may be on
    the way, less the activations of those that are not.

    A micro-batch keeps what a forward pass adds from its first operator to its last.
    """
    pipeline = pipeline_of(plan)
    for part in range(pipeline.parts):
        stages = range(part, len(pipeline.stages), pipeline.parts)
        points = [stage_plan(plan, number).memory_bytes for number in stages]
        kept = [max(own[len(own) // 2 - 1] - own[0], 0.0) for own in points]
        beside = _beside(pipeline, part, kept)
        least = min(own[0] - more for own, more in zip(points, beside, strict=True))
        deltas: list[tuple[FloatArray, FloatArray]] = []
        for number, own, one, more in zip(stages, points, kept, beside, strict=True):
            passes = [p for p in step.passes if p.stage == number]
            deltas += _levels(own, one, least + more + one, passes, timeline)
        yield curve_of(f"stage {part}", [(np.zeros(1), np.array([least])), *deltas])


def _beside(pipeline: Pipeline, part: int, kept: Sequence[float]) -> list[float]:
    """Bytes of other micro-batches that stand at most while each chunk of a part runs one."""
    if pipeline.chunks == 1:
        return [(pipeline.stages[part].in_flight - 1) * kept[0]]
    shape = Shape(pipeline.parts, pipeline.chunks, pipeline.micro_batches)
    every = moments(pipeline.schedule, shape, part)
    return [
        max(math.fsum(n * own for n, own in zip(counts, kept, strict=True)) for counts in each)
        for each in every
    ]


def _levels(
    points: Sequence[float],
    kept: float,
    full: float,
    passes: Sequence[StagePass],
    timeline: Timeline,
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Changes of memory by the passes of one stage.

    Args:
        points: while its operators run, forward and backward, with all micro-batches on the way.
        kept: bytes that one of them keeps.
        full: what stands when all are on the way and none runs.
        passes: of the stage.
        timeline: when they ran.
    """
    half = len(points) // 2
    begun: dict[int, float] = {}
    for each in passes:
        forward = each.direction is Direction.FORWARD
        start, end = float(timeline.start_s[each.first]), float(timeline.end_s[each.last])
        top = max(points[:half] if forward else points[half:]) - full
        yield np.array([start, end]), np.array([top, -top])
        if forward:
            begun[each.micro] = start
        else:
            yield np.array([begun[each.micro], end]), np.array([kept, -kept])
