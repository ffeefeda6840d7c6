"""How long the passes of a pipeline take in the order of its schedule, with nothing overlapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costmodel.simulation.schedules import SCHEDULES, Direction, Order, Shape
from ir.plan import Pipeline

ROUNDS = (6, 10)
"""Micro-batches for each part between which a long step is extended: by then every round of an
order takes nearly as long as the one before it."""
PASSES = 4_000
"""Passes of one direction that are run all the same before a step is extended."""


class PassTimes(NamedTuple):
    """Seconds of one micro-batch through each piece, in the order of the network."""

    forward_s: Sequence[float]
    backward_s: Sequence[float]


def in_order_s(pipeline: Pipeline, least_s: float) -> float:
    """Seconds of a step: that of all passes in their order, if it is more than the closed form,
    which counts on equal chunks and on stages that share their time alike between both passes.

    Args:
        pipeline: with the times of its stages.
        least_s: of the closed form.
    """
    if pipeline.parts == 1:
        return least_s
    stages, parts = pipeline.stages, pipeline.parts
    times = PassTimes([s.forward_s for s in stages], [s.backward_s for s in stages])
    once_s = max(sum(s.once_s for s in stages[part::parts]) for part in range(parts))
    spent_s = order_time_s(pipeline.schedule, times, parts, pipeline.micro_batches)
    return max(least_s, spent_s + once_s)


def order_time_s(name: str, times: PassTimes, parts: int, micro_batches: int) -> float:
    """Seconds from the first pass to the last one.

    Piece i is on part i mod `parts`. A long step is that of a shorter one and as many rounds more.

    Args:
        name: of a schedule with whole backward passes, in one direction.
        times: of every piece; as many as there are parts, or a multiple of it.
        parts: of the machine.
        micro_batches: of the step.

    >>> order_time_s("interleaved", PassTimes([1.0] * 4, [2.0] * 4), 2, 4)
    27.0
    """
    most = PASSES // len(times.forward_s) // parts
    few, more = (max(rounds, most * rounds // ROUNDS[1]) * parts for rounds in ROUNDS)
    if micro_batches <= more:
        return _run_s(name, times, parts, micro_batches)
    # What is left over of the last round goes with the first ones.
    few, more = (count + micro_batches % parts for count in (few, more))
    short_s = _run_s(name, times, parts, few)
    long_s = _run_s(name, times, parts, more)
    return short_s + (long_s - short_s) / (more - few) * (micro_batches - few)


def _run_s(name: str, times: PassTimes, parts: int, micro_batches: int) -> float:
    shape = Shape(parts, len(times.forward_s) // parts, micro_batches)
    orders = [SCHEDULES[name].order(shape, part) for part in range(parts)]
    run = _Run(times, parts)
    reached = [0] * parts
    while any(at < len(order) for at, order in zip(reached, orders, strict=True)):
        reached = [run.advance(part, at, orders[part]) for part, at in enumerate(reached)]
    return max(run.free_s)


class _Run:
    """When each pass is over."""

    def __init__(self, times: PassTimes, parts: int) -> None:
        self.times, self.parts = times, parts
        self.free_s = [0.0] * parts
        self.over_s: dict[tuple[Direction, int, int], float] = {}

    def advance(self, part: int, start: int, order: Order) -> int:
        """Run a part's passes until one waits for a pass that has no time yet; where it is."""
        last = len(self.times.forward_s) - 1
        for at in range(start, len(order)):
            direction, chunk, micro = order[at][:3]
            piece, forward = chunk * self.parts + part, direction is Direction.FORWARD
            if forward:
                before = (direction, piece - 1, micro)
            else:
                before = (direction, piece + 1, micro) if piece < last else (
                    Direction.FORWARD, piece, micro)  # fmt: skip
            ready_s = 0.0 if forward and piece == 0 else self.over_s.get(before)
            if ready_s is None:
                return at
            own_s = (self.times.forward_s if forward else self.times.backward_s)[piece]
            self.free_s[part] = max(self.free_s[part], ready_s) + own_s
            self.over_s[direction, piece, micro] = self.free_s[part]
        return len(order)
