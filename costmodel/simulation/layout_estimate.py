"""The estimate of a conventional layout in which nothing overlaps.

One stage takes what the training estimate says if every time counts in full. With several, the
passes of all micro-batches run in the order of their schedule: no closed form holds where stages
differ, as those with the embedding and the head do, or where messages go one way at either end.
With equal stages, no messages and a schedule that has one, this is the closed form.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from costmodel.schedules.pass_times import ChunkTimes, kinds, spans
from costmodel.simulation.layout_step import LayoutConstants, layout_step
from costmodel.training.step import times_in_turn
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.simulation.step import Block, Sharding, Stage
    from costmodel.training.constants import StepConstants
    from costmodel.training.records import TrainingRun


def in_turn_s(run: TrainingRun, constants: StepConstants) -> float:
    """Seconds of one step in which nothing overlaps and experts are evenly busy: every stage runs
    its passes, reduces its gradients, waits for all others, updates.

    Args:
        run: model, layout, machine; whole micro-batches.
        constants: what machine and software reach.

    Raises:
        ScheduleError: the schedule does not allow the layout.
    """
    if run.layout.pp == 1:
        return float(times_in_turn(RunTable.of([run]), constants).total[0])
    step = layout_step(run, LayoutConstants(constants), overlap=False)
    step.orders()  # raises where it cannot be
    chunks = [[_chunk_times(own, step.sharding) for own in stage.chunks] for stage in step.stages]
    each = kinds(step.schedule, step.shape)
    seconds = [chunks[kind.stage][kind.chunk].of(kind) for kind in each]
    passes = spans(step.schedule, step.shape, seconds, step.transfers[0].forward_s)
    before_s, behind_s = zip(*(_once_s(own, step.sharding) for own in step.stages), strict=True)
    over_s: list[float] = [a + b for a, b in zip(passes.over_s, before_s, strict=True)]
    if not step.is_skewed:
        return step.overhead_s + max(over_s) + float(max(behind_s))
    # A stage begins the next step when its own is over.
    begun_s: list[float] = [0.0] * len(over_s) if step.overhead_s else passes.begun_s
    ends = zip(over_s, behind_s, begun_s, strict=True)
    longest_s: float = max(over + behind - begun for over, behind, begun in ends)
    return step.overhead_s + longest_s


def _chunk_times(blocks: Sequence[Block], sharding: Sharding) -> ChunkTimes:
    """Passes of one micro-batch, with what is exchanged for each."""

    def seconds(*names: str) -> float:
        pairs = ((span, b.count) for b in blocks for name in names for span in getattr(b, name))
        return math.fsum(span.seconds * count for span, count in pairs)

    gather_s = sharding.gather_each_pass * sum(b.gather_s * b.count for b in blocks)
    sync_s = sharding.sync_each_micro * sum(b.sync_s * b.count for b in blocks)
    return ChunkTimes(
        seconds("forward") + gather_s,
        seconds("again", "backward") + gather_s,
        seconds("weight") + sync_s,
    )


def _once_s(stage: Stage, sharding: Sharding) -> tuple[float, float]:
    """What a stage does once in a step: until its gradients are reduced, and behind that."""
    blocks = [block for chunk in stage.chunks for block in chunk]
    sync_s = (not sharding.sync_each_micro) * sum(b.sync_s * b.count for b in blocks)
    gather_s = (not sharding.gather_each_pass) * sum(b.gather_s * b.count for b in blocks)
    return sync_s, stage.update_s + gather_s
