"""How long a step of a pipeline takes in the order of its schedule, with nothing overlapped.

Parts of the machine run their passes in their order; when its passes are over a part adds up its
gradients, and parts that hold the same parameter do so together. Once all parts have their
gradients (the norm of all of them decides how far a step goes) each updates its parameters. That
is the step that the simulation makes where nothing overlaps.
"""

from __future__ import annotations

import math
from dataclasses import replace

from costmodel.schedules.pass_times import PassTimes, part_ends_s
from ir.plan import Pipeline, PipelineStage, Plan
from ir.plan_stages import retimed


def in_order_s(pipeline: Pipeline) -> float:
    """Seconds of a step: all passes in their order, then gradients, then updates.

    Args:
        pipeline: with the times of its stages.
    """
    stages, parts = pipeline.stages, pipeline.parts
    times = PassTimes([s.forward_s for s in stages], [s.backward_s for s in stages])
    free_s = part_ends_s(pipeline.schedule, times, parts, pipeline.micro_batches)
    over_s = [0.0] * len(stages)
    for number, stage in enumerate(stages):
        over_s[number] = free_s[number % parts] = free_s[number % parts] + stage.sync_s
    for shared in pipeline.shared:
        ready_s = max(over_s[number] for number in shared.stages)
        for number in shared.stages:
            end_s = max(free_s[number % parts], ready_s) + shared.time_s
            over_s[number] = free_s[number % parts] = end_s
    updates_s = [_update_s(stage) for stage in stages]
    return max(over_s) + max(sum(updates_s[part::parts]) for part in range(parts))


def in_turn_s(plan: Plan) -> float:
    """Seconds of the step of a plan if nothing overlapped."""
    hidden_s = math.fsum(item.hidden_s for item in plan.collectives)
    if plan.pipeline.is_single or not hidden_s:
        return plan.estimate.step_time_s + hidden_s
    exposed = tuple(replace(item, hidden_s=0.0) for item in plan.collectives)
    return in_order_s(retimed(replace(plan, collectives=exposed)).pipeline)


def _update_s(stage: PipelineStage) -> float:
    """Seconds in which a stage updates its parameters; earlier files do not tell it apart."""
    return stage.update_s if stage.sync_s or stage.update_s else stage.once_s
