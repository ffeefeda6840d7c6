"""When the passes of a pipeline run if nothing overlaps: each in the order of its stage, once what
it needs is there. Messages hold up their sender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.schedules.orders import SCHEDULES, Direction, Pass, Shape

PASSES = 4_000
"""Passes of one direction that are run all the same before a step is extended."""
ROUNDS = 12
"""Rounds of as many micro-batches as there are parts after which an order repeats: what limits it
spans as many micro-batches as a part keeps in flight, a few of which divide so many."""
ROUNDING = 1e-13
"""Relative difference below which two repeats take equally long."""


class Turn(NamedTuple):
    """A pass of a step, in an order in which every one stands behind those that it waits for."""

    stage: int
    kind: int
    """Which of the kinds of passes; see `kinds`."""
    after: int
    """Number of the turn whose result it needs, -1 for none."""


class Kind(NamedTuple):
    """Passes that take equally long."""

    stage: int
    chunk: int
    direction: Direction
    whole: bool
    """For a backward pass: with the gradients of the weights."""
    sends: bool
    """Whether its result goes to another chunk."""


_DIRECTIONS = (
    (Direction.FORWARD, True), (Direction.BACKWARD, True), (Direction.BACKWARD, False),
    (Direction.WEIGHT, True),
)  # fmt: skip


def kinds(name: str, shape: Shape) -> Iterator[Kind]:
    """All kinds of passes of a step."""
    route = SCHEDULES[name].route(shape)
    for stage in range(shape.stages):
        for chunk in range(shape.chunks):
            for direction, whole in _DIRECTIONS:
                forward, weight = direction is Direction.FORWARD, direction is Direction.WEIGHT
                target = (route.behind if forward else route.before)(stage, chunk)
                yield Kind(stage, chunk, direction, whole, not weight and target is not None)


@lru_cache(maxsize=64)
def passes_in_order(name: str, shape: Shape) -> tuple[Turn, ...]:
    """All passes of a step, each behind what it waits for."""
    schedule = SCHEDULES[name]
    route = schedule.route(shape)
    orders = [iter(schedule.order(shape, stage)) for stage in range(shape.stages)]
    heads = [next(order, None) for order in orders]
    done: dict[tuple[Direction, int, int, int], int] = {}
    found: list[Turn] = []
    while any(head is not None for head in heads):
        for stage, order in enumerate(orders):
            while (each := heads[stage]) is not None:
                after = -1
                if each.direction is not Direction.WEIGHT:
                    forward = each.direction is Direction.FORWARD
                    source = (route.before if forward else route.behind)(stage, each.chunk)
                    if source is not None and (each.direction, *source, each.micro) not in done:
                        break
                    after = -1 if source is None else done[each.direction, *source, each.micro]
                done[each.direction, stage, each.chunk, each.micro] = len(found)
                found.append(Turn(stage, _kind_of(shape, stage, each), after))
                heads[stage] = next(order, None)
    return tuple(found)


def _kind_of(shape: Shape, stage: int, each: Pass) -> int:
    whole = each.whole or each.direction is not Direction.BACKWARD
    place = _DIRECTIONS.index((each.direction, whole))
    return (stage * shape.chunks + each.chunk) * len(_DIRECTIONS) + place


class ChunkTimes(NamedTuple):
    """Seconds of one micro-batch through one chunk of a stage."""

    forward_s: float
    input_s: float
    """Gradient of the input, with what is computed again before."""
    weight_s: float
    """Gradients of the weights."""

    def of(self, kind: Kind) -> float:
        """Seconds of one pass."""
        if kind.direction is Direction.FORWARD:
            return self.forward_s
        if kind.direction is Direction.WEIGHT:
            return self.weight_s
        return self.input_s + self.weight_s if kind.whole else self.input_s


class Spans(NamedTuple):
    """Seconds from the start of a step, of each stage; numbers or arrays over several ways."""

    begun_s: list[Any]
    over_s: list[Any]
    """When its last pass and message are over."""


def spans(
    name: str, shape: Shape, seconds: Sequence[Any], send_s: float = 0.0,
    later: Callable[[Any, Any], Any] = max,
) -> Spans:  # fmt: skip
    """When each stage begins and ends.

    Args:
        name: of the schedule.
        shape: of the step.
        seconds: of every kind of passes, numbers or arrays over several ways.
        send_s: to hand one micro-batch to another chunk.
        later: the later of two times; `numpy.maximum` for arrays.
    """
    sends = [send_s * each.sends for each in kinds(name, shape)] if send_s else ()
    free: list[Any] = [0.0] * shape.stages
    begun: list[Any] = [None] * shape.stages
    over: list[Any] = []
    for stage, kind, after in passes_in_order(name, shape):
        start = free[stage] if after < 0 else later(free[stage], over[after])
        if begun[stage] is None:
            begun[stage] = start
        end = start + seconds[kind]
        free[stage] = end + sends[kind] if sends else end
        over.append(free[stage])
    return Spans(begun, free)


class PassTimes(NamedTuple):
    """Seconds of one micro-batch through each piece, in the order of the network; numbers, or
    arrays over several ways.
    """

    forward_s: Sequence[Any] | NDArray[np.float64]
    backward_s: Sequence[Any] | NDArray[np.float64]

    def of_kinds(self, name: str, shape: Shape) -> list[Any]:
        """The same of every kind of passes; piece k is on stage k mod p."""
        return [
            (self.forward_s if kind.direction is Direction.FORWARD else self.backward_s)[
                kind.chunk * shape.stages + kind.stage
            ]
            for kind in kinds(name, shape)
        ]


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
            _ends_s(name, times, parts, few + repeats * each) for repeats in range(3)
        )
        more = (micro_batches - few) // each
        rows = list(zip(first, second, third, strict=True))
        if all(abs((c - b) - (b - a)) <= ROUNDING * c for a, b, c in rows):
            return [a + more * (b - a) for a, b, _ in rows]
        few = 2 * few + micro_batches % each - (2 * few) % each
    return _ends_s(name, times, parts, micro_batches)


def _ends_s(name: str, times: PassTimes, parts: int, micro_batches: int) -> list[float]:
    shape = Shape(parts, len(times.forward_s) // parts, micro_batches)
    return spans(name, shape, times.of_kinds(name, shape)).over_s
