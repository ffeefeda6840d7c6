"""How long a step of a pipeline takes in the order of its schedule, with nothing overlapped.

Parts of the machine run their passes in their order; when its passes are over a part adds up its
gradients, and parts that hold the same parameter do so together. Once all parts have their
gradients (the norm of all of them decides how far a step goes) each updates its parameters. That
is the step that the simulation makes where nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costmodel.simulation.pass_order import ChunkTimes, PassOrder
from costmodel.simulation.routes import Route
from costmodel.simulation.schedules import SCHEDULES, Shape
from ir.plan import Pipeline, PipelineStage

PASSES = 4_000
"""Passes of one direction that are run all the same before a step is extended."""
ROUNDS = 12
"""Rounds of as many micro-batches as there are parts after which an order repeats: what limits it
spans as many micro-batches as a part keeps on the way, a few of which divide so many."""
ROUNDING = 1e-13
"""Relative difference below which two repeats take equally long."""


class PassTimes(NamedTuple):
    """Seconds of one micro-batch through each piece, in the order of the network."""

    forward_s: Sequence[float]
    backward_s: Sequence[float]


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


def _update_s(stage: PipelineStage) -> float:
    """Seconds in which a stage updates its parameters; earlier files do not tell it apart."""
    return stage.update_s if stage.sync_s or stage.update_s else stage.once_s


def part_ends_s(name: str, times: PassTimes, parts: int, micro_batches: int) -> list[float]:
    """When the last pass of every part of the machine is over, in seconds.

    Piece i is on part i mod `parts`. A long step is that of a shorter one and as many repeats
    more, once each repeat takes as long as the one before it.

    >>> part_ends_s("interleaved", PassTimes([1.0] * 4, [2.0] * 4), 2, 4)
    [27.0, 25.0]

    Args:
        name: of a schedule with whole backward passes, in one direction.
        times: of every piece; as many as there are parts, or a multiple of it.
        parts: of the machine.
        micro_batches: of the step.
    """
    if parts == 1:
        return [micro_batches * (sum(times.forward_s) + sum(times.backward_s))]
    each = ROUNDS * parts
    few = max(PASSES // len(times.forward_s) // each, 1) * each + micro_batches % each
    while few + 3 * each < micro_batches:
        first, second, third = (
            _run(name, times, parts, few + repeats * each) for repeats in range(3)
        )
        more = (micro_batches - few) // each
        rows = list(zip(first, second, third, strict=True))
        if all(abs((c - b) - (b - a)) <= ROUNDING * c for a, b, c in rows):
            return [a + more * (b - a) for a, b, _ in rows]
        few = 2 * few + micro_batches % each - (2 * few) % each
    return _run(name, times, parts, micro_batches)


def _run(name: str, times: PassTimes, parts: int, micro_batches: int) -> list[float]:
    shape = Shape(parts, len(times.forward_s) // parts, micro_batches)
    passes = PassOrder(
        [SCHEDULES[name].order(shape, part) for part in range(parts)],
        [
            [
                ChunkTimes(forward_s, backward_s, 0.0)
                for forward_s, backward_s in zip(
                    times.forward_s[part::parts], times.backward_s[part::parts], strict=True
                )
            ]
            for part in range(parts)
        ],
        0.0,
        Route(parts, shape.chunks, bidirectional=False),
    )
    passes.run()
    return passes.over_s
