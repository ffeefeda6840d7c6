"""Cuts of pieces that take turns, moved as long as their passes take less in their order.

The closed form knows what a part has in all its chunks, and not how it is shared among them; where
chunks of one part differ, passes wait for one another. So the best cuts by the closed form are
where this begins: a segment moves from one piece to another, those between stay as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from costmodel.simulation.schedules import SCHEDULES, Direction
from costmodel.simulation.schedules import Shape as ScheduleShape
from planner.stages.chain import FloatArray, IntArray
from planner.stages.menu import Shape
from planner.stages.sequence import Ends

FORWARD = 1 / 3
"""Share of the forward pass in the time of a micro-batch: of two products backward, one forward."""
ROUNDS = 4
"""Rounds of as many micro-batches as there are parts that are run; those behind them take as long
as the last one of them, and no less than the busiest part has to do."""
STEPS = 40
"""Moves at most."""
ROUNDING = 1e-12
"""Relative difference below which two steps take equally long."""
MOST = 4_000_000
"""Passes by ways to cut that are looked at in one step: 32 MB. Where they would be more, segments
move less far."""


class Wait(NamedTuple):
    """A pass, and what it waits for beside the pass before it on its part."""

    part: int
    weight: int
    """Its piece; backward passes are behind all forward ones."""
    after: int
    """Number of another pass, or -1."""


def order_s(pieces_s: FloatArray, shape: Shape) -> FloatArray:
    """Seconds from the first pass to the last, of several ways to cut.

    Args:
        pieces_s: seconds of a micro-batch, shape (pieces, ways), finite.
        shape: with a multiple of as many micro-batches as there are parts.

    Returns:
        Shape (ways,).
    """
    rounds = shape.micro_batches // shape.stages
    if rounds <= ROUNDS:
        return _run_s(pieces_s, shape, rounds)
    last, before = (_run_s(pieces_s, shape, count) for count in (ROUNDS, ROUNDS - 1))
    parts_s = np.array([pieces_s[part :: shape.stages].sum(axis=0) for part in range(shape.stages)])
    round_s = np.maximum(last - before, shape.stages * parts_s.max(axis=0))
    found: FloatArray = last + (rounds - ROUNDS) * round_s
    return found


def ordered_cuts(tables: Sequence[FloatArray], ends: Ends, shape: Shape) -> tuple[float, Ends]:
    """Ends moved as long as that helps, and seconds from the first pass to the last.

    Args:
        tables: what intervals take as each piece, seconds of a micro-batch.
        ends: of the pieces, to begin with.
        shape: of the step.
    """
    inner, passes = len(ends) - 1, 2 * shape.pieces * shape.stages * ROUNDS
    moves = _moves(inner, max(MOST // (2 * inner * passes), 1))
    at = np.array(ends)
    best_s = float(order_s(_pieces_s(tables, at[None, :]), shape)[0])
    for _ in range(STEPS):
        offered = at + moves
        offered = offered[(np.diff(offered, axis=1, prepend=0) > 0).all(axis=1)]
        pieces_s = _pieces_s(tables, offered)
        can_be = np.flatnonzero(np.isfinite(pieces_s).all(axis=0))
        found = order_s(pieces_s[:, can_be], shape)
        if not len(found) or found.min() >= best_s * (1 - ROUNDING):
            break
        least = int(found.argmin())
        best_s, at = float(found[least]), offered[can_be[least]]
    return best_s, tuple(at.tolist())


@lru_cache(maxsize=64)
def _moves(inner: int, far: int) -> IntArray:
    """What is added to the ends where a segment goes from one piece to another, before or behind
    it, so far at most; shape (moves, inner + 1).
    """
    rows = [
        (first, last, step)
        for first in range(inner)
        for last in range(first + 1, min(first + far, inner) + 1)
        for step in (-1, 1)
    ]
    found = np.zeros((len(rows), inner + 1), dtype=np.intp)
    for row, (first, last, step) in zip(found, rows, strict=True):
        row[first:last] = step
    return found


def _pieces_s(tables: Sequence[FloatArray], ends: IntArray) -> FloatArray:
    starts = np.hstack([np.zeros((len(ends), 1), dtype=ends.dtype), ends[:, :-1]])
    return np.array([own[starts[:, k], ends[:, k]] for k, own in enumerate(tables)])


def _run_s(pieces_s: FloatArray, shape: Shape, rounds: int) -> FloatArray:
    weights = np.concatenate([FORWARD * pieces_s, (1 - FORWARD) * pieces_s])
    free = [np.zeros(pieces_s.shape[1]) for _ in range(shape.stages)]
    over: list[FloatArray] = []
    for part, weight, after in _waits(shape.stages, shape.chunks, rounds):
        ready = free[part] if after < 0 else np.maximum(free[part], over[after])
        free[part] = ready + weights[weight]
        over.append(free[part])
    found: FloatArray = np.max(free, axis=0)
    return found


@lru_cache(maxsize=64)
def _waits(parts: int, chunks: int, rounds: int) -> tuple[Wait, ...]:
    """All passes, each behind what it waits for."""
    shape = ScheduleShape(parts, chunks, rounds * parts)
    orders = [iter(SCHEDULES["interleaved"].order(shape, part)) for part in range(parts)]
    heads = [next(own, None) for own in orders]
    pieces = parts * chunks
    done: dict[tuple[int, int], int] = {}
    found: list[Wait] = []
    while any(head is not None for head in heads):
        for part, own in enumerate(orders):
            while (head := heads[part]) is not None:
                back = head.direction is Direction.BACKWARD
                piece = head.chunk * parts + part
                weight = 2 * pieces - 1 - piece if back else piece
                if weight and (weight - 1, head.micro) not in done:
                    break
                after = done[weight - 1, head.micro] if weight else -1
                done[weight, head.micro] = len(found)
                found.append(Wait(part, piece + pieces * back, after))
                heads[part] = next(own, None)
    return tuple(found)
