"""From a plan to what its step consists of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.collectives import Collective
from costmodel.schedules.in_flight import moments
from costmodel.schedules.orders import Shape
from costmodel.simulation.step import (
    Block,
    ChunkOperators,
    SharedGradient,
    Stage,
    Step,
    Transfer,
)
from costmodel.simulation.task_graph import Activity, Span
from ir.plan import Pipeline, Plan
from ir.plan_enums import Cause
from ir.plan_stages import (
    leaving,
    once_in_step,
    received,
    send_times,
    stage_plan,
    stage_size,
    stage_times,
)


def plan_step(plan: Plan) -> Step:
    """The step of a plan; one without stages has a single stage and micro-batch."""
    pipeline = plan.pipeline
    if pipeline.is_single:
        stage = Stage(
            "device",
            ((_kernels(plan),),),
            copies=plan.devices,
            operators=(ChunkOperators(plan, ()),),
        )
        return Step((stage,), 1, pipeline.schedule)
    return Step(
        tuple(_stage(plan, part) for part in range(pipeline.parts)),
        pipeline.micro_batches,
        pipeline.schedule,
        tuple(_transfer(plan, number) for number in range(1, len(pipeline.stages))),
        receiver_posts=True,
        shared=tuple(
            SharedGradient(
                each.tensor,
                Activity(Cause.GRADIENT_SYNC, Collective.POINT_TO_POINT.value, each.tier),
                each.time_s,
                tuple(divmod(number, pipeline.parts)[::-1] for number in each.stages),
            )
            for each in pipeline.shared
        ),
    )


def _transfer(plan: Plan, stage: int) -> Transfer:
    """What goes over the cut before a stage."""
    items = received(plan, stage)
    cause, tier = (items[0].cause, items[0].tier) if items else (Cause.BETWEEN_STAGES, "")
    activity = Activity(cause, Collective.POINT_TO_POINT.value, tier)
    return Transfer(activity, *send_times(plan, stage))


def _stage(plan: Plan, part: int) -> Stage:
    """A part of the machine, with all stages that it runs.

    Its memory is what the plan says with all micro-batches that may be in flight, less the
    activations of those that are not. A micro-batch keeps what a forward pass adds from its first
    operator to its last.
    """
    pipeline = plan.pipeline
    numbers = range(part, len(pipeline.stages), pipeline.parts)
    own = [stage_plan(plan, number) for number in numbers]
    points = [each.memory_bytes for each in own]
    kept = [max(each[len(each) // 2 - 1] - each[0], 0.0) for each in points]
    beside = _beside(pipeline, part, kept)
    return Stage(
        f"stage {part}",
        tuple((_kernels(each),) for each in own),
        state_bytes=min(each[0] - more for each, more in zip(points, beside, strict=True)),
        update_s=sum(stage_times(plan, number).update_s for number in numbers),
        copies=stage_size(plan, part),
        operators=tuple(
            ChunkOperators(
                each,
                once_in_step(plan, number),
                tuple(s.tensor for s in received(plan, number) if s.backward),
                tuple(s.tensor for s in leaving(plan, number)),
                one,
                more,
            )
            for number, each, one, more in zip(numbers, own, kept, beside, strict=True)
        ),
    )


def _kernels(plan: Plan) -> Block:
    """What a stage computes."""
    forward_s = math.fsum(o.compute_s - o.backward_s for o in plan.operators)
    backward_s = math.fsum(o.backward_s for o in plan.operators)
    again_s = math.fsum(
        (*(o.recompute_s for o in plan.operators), *(t.recompute_s for t in plan.tensors))
    )
    causes = (
        (Cause.COMPUTE_FORWARD, forward_s),
        (Cause.COMPUTE_BACKWARD, backward_s),
        (Cause.RECOMPUTE, again_s),
    )
    forward, backward, again = ((Span(Activity(cause), s),) for cause, s in causes)
    return Block("", 1.0, forward=forward, backward=backward, again=again)


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
