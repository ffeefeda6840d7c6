"""Where pieces of a network end: the best cuts of a sequence of tables, one for each piece.

As `planner.pipeline.chain`, but for pieces on equal devices whose tables differ in what fits: the
first keeps most micro-batches in flight. Exact without chunks. With chunks piece k runs on part
k mod p; as many pieces in a row as there are parts are each on another one, so the best cuts among
them, the rest of the network cut as it is, follow as without chunks. Such windows move over the
network as long as that helps.

The closed form knows what a part has in all its chunks, and not how it is shared among them; where
chunks of one part differ, passes wait for one another. So the best cuts by the closed form are
where `ordered_cuts` begins: a segment moves from one piece to another, those between stay as long.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from costmodel.schedules.closed_form import pipeline_time_s
from costmodel.schedules.orders import Shape as ScheduleShape
from costmodel.schedules.pass_times import PassTimes, spans
from planner.pipeline.chain import FloatArray, IntArray
from planner.pipeline.space import Configuration

Ends = tuple[int, ...]


def cut_sequence(tables: Sequence[FloatArray], micro_batches: int) -> tuple[float, Ends] | None:
    """The best ends of the stages, and seconds of a step; None if nothing fits.

    Every time that a stage may take is tried as the slowest one, from the least that leaves a way
    through all segments; below it the least sum follows by dynamic programming.

    Args:
        tables: for each stage the seconds of one micro-batch for the segments from i to j - 1,
            shape (L, L + 1), infinite where that cannot be.
        micro_batches: of one step.
    """
    least_s = least_sum_s(tables)
    best: tuple[float, Ends] | None = None
    for bound_s in _slowest_s(tables):
        if best is not None and (micro_batches - 1) * bound_s + least_s >= best[0]:
            break
        found = _least_sum(tables, float(bound_s))
        if found is None:
            continue
        step_s = pipeline_time_s(at_ends(tables, found[1]), micro_batches)
        if best is None or step_s < best[0]:
            best = (step_s, found[1])
    return best


def cut_evenly(tables: Sequence[FloatArray]) -> Ends | None:
    """The ends with the least slowest stage, and among those the least sum; None if nothing fits.

    Args:
        tables: as for `cut_sequence`.
    """
    times = _slowest_s(tables)
    found = _least_sum(tables, float(times[0])) if len(times) else None
    return None if found is None else found[1]


def least_sum_s(tables: Sequence[FloatArray]) -> float:
    """The least sum of the times of all stages; infinite if there is no way."""
    found = _least_sum(tables, np.inf)
    return float(np.inf) if found is None else found[0]


def _slowest_s(tables: Sequence[FloatArray]) -> FloatArray:
    """Times that the slowest stage can have, ascending; none if nothing fits."""
    times = np.unique(np.concatenate([t[np.isfinite(t)] for t in tables]))
    first = bisect_left(times, 1, key=lambda time_s: _least_sum(tables, float(time_s)) is not None)
    return times[first:]


def at_ends(tables: Sequence[FloatArray], ends: Ends) -> list[float]:
    """What tables of intervals say of the pieces that end there, each of its own."""
    pieces = zip(tables, pairwise((0, *ends)), strict=True)
    return [float(table[place]) for table, place in pieces]


def _least_sum(tables: Sequence[FloatArray], bound_s: float) -> tuple[float, Ends] | None:
    """The least sum of times, none above the bound, and the ends of the stages."""
    count = tables[0].shape[0]
    cost = np.full(count + 1, np.inf)
    cost[0] = 0.0
    taken: list[IntArray] = []
    for table in tables:
        totals = np.where(table <= bound_s, table, np.inf) + cost[:count, None]
        starts = totals.argmin(axis=0)
        cost = np.take_along_axis(totals, starts[None, :], axis=0)[0]
        taken.append(starts)
    if not np.isfinite(cost[count]):
        return None
    ends = [count]
    for starts in reversed(taken[1:]):
        ends.append(int(starts[ends[-1]]))
    return float(cost[count]), tuple(reversed(ends))


ROUNDS = 4
"""Times that all windows are looked at, at most."""


def best_cuts(tables: Sequence[FloatArray], shape: Configuration) -> tuple[float, Ends] | None:
    """The best cuts: seconds of a step, and where the pieces end. Exact without chunks; with them,
    from where no piece is slow, ends are moved as long as that helps.
    """
    found = cut_sequence(tables, shape.micro_batches * shape.chunks)
    if found is None or shape.chunks == 1:
        return found
    return moved_cuts(tables, found[1], shape)


def moved_cuts(
    tables: Sequence[FloatArray], ends: Ends, shape: Configuration
) -> tuple[float, Ends]:
    """Ends moved as long as that helps: of windows of pieces together, then one by one."""
    best = merit(tables, ends, shape)
    for _ in range(ROUNDS):
        before = best
        for first in range(0, shape.pieces - shape.stages + 1, max(shape.stages // 2, 1)):
            own = _in_window(tables, ends, shape, first)
            if own is not None and (found := merit(tables, own, shape)) < best:
                best, ends = found, own
        found, ends = _one_by_one(tables, ends, shape)
        best = min(best, found)
        if best[0] >= before[0]:
            break
    return best[0], ends


def _in_window(
    tables: Sequence[FloatArray], ends: Ends, shape: Configuration, first: int
) -> Ends | None:
    """The ends with those of as many pieces in a row as there are parts put anew."""
    last = first + shape.stages - 1
    start, end = (ends[first - 1] if first else 0), ends[last]
    parts = parts_s(tables, ends, shape)
    starts = (0, *ends[:-1])
    own = []
    for piece in range(first, last + 1):
        others = parts[piece % shape.stages] - float(tables[piece][starts[piece], ends[piece]])
        own.append(tables[piece][start:end, start : end + 1] + max(others, 0.0))
    found = cut_evenly(own)
    if found is None:
        return None
    return (*ends[:first], *(start + place for place in found), *ends[last + 1 :])


def _one_by_one(
    tables: Sequence[FloatArray], ends: Ends, shape: Configuration
) -> tuple[tuple[float, float], Ends]:
    best = merit(tables, ends, shape)
    while True:
        moves = (
            (*ends[:piece], ends[piece] + step, *ends[piece + 1 :])
            for piece in range(len(ends) - 1)
            for step in (-1, 1)
            if ends[piece] + step - (ends[piece - 1] if piece else 0) > 0
            and ends[piece] + step < ends[piece + 1]
        )
        better = min(((merit(tables, own, shape), own) for own in moves), default=(best, ends))
        if better[0] >= best:
            return best, ends
        best, ends = better


def merit(tables: Sequence[FloatArray], ends: Ends, shape: Configuration) -> tuple[float, float]:
    """Seconds of a step, then how uneven the parts of the machine are."""
    parts = parts_s(tables, ends, shape)
    if math.isinf(max(parts)):
        return math.inf, math.inf
    step_s = pipeline_time_s(parts, shape.micro_batches, shape.chunks)
    return step_s, sum(part * part for part in parts)


def parts_s(tables: Sequence[FloatArray], ends: Ends, shape: Configuration) -> list[float]:
    """Seconds of a micro-batch on each part of the machine."""
    times = at_ends(tables, ends)
    return [sum(times[part :: shape.stages]) for part in range(shape.stages)]


FORWARD = 1 / 3
"""Share of the forward pass in the time of a micro-batch: of two products backward, one forward."""
ROUNDS_RUN = 4
"""Rounds of as many micro-batches as there are parts that are run; those behind them take as long
as the last one of them, and no less than the busiest part has to do."""
MOST_MOVES = 40
"""Moves at most."""
ROUNDING = 1e-12
"""Relative difference below which two steps take equally long."""
MOST_PASSES = 4_000_000
"""Passes by ways to cut that are looked at in one step: 32 MB. Where they would be more, segments
move less far."""


def order_s(pieces_s: FloatArray, shape: Configuration) -> FloatArray:
    """Seconds from the first pass to the last, of several ways to cut.

    Args:
        pieces_s: seconds of a micro-batch, shape (pieces, ways), finite.
        shape: with a multiple of as many micro-batches as there are parts.

    Returns:
        Configuration (ways,).
    """
    rounds = shape.micro_batches // shape.stages
    if rounds <= ROUNDS_RUN:
        return _run_s(pieces_s, shape, rounds)
    last, before = (_run_s(pieces_s, shape, count) for count in (ROUNDS_RUN, ROUNDS_RUN - 1))
    parts_s = np.array([pieces_s[part :: shape.stages].sum(axis=0) for part in range(shape.stages)])
    round_s = np.maximum(last - before, shape.stages * parts_s.max(axis=0))
    found: FloatArray = last + (rounds - ROUNDS_RUN) * round_s
    return found


def ordered_cuts(
    tables: Sequence[FloatArray], ends: Ends, shape: Configuration
) -> tuple[float, Ends]:
    """Ends moved as long as that helps, and seconds from the first pass to the last.

    Args:
        tables: what intervals take as each piece, seconds of a micro-batch.
        ends: of the pieces, to begin with.
        shape: of the step.
    """
    inner, passes = len(ends) - 1, 2 * shape.pieces * shape.stages * ROUNDS_RUN
    moves = _moves(inner, max(MOST_PASSES // (2 * inner * passes), 1))
    at = np.array(ends)
    best_s = float(order_s(_pieces_s(tables, at[None, :]), shape)[0])
    for _ in range(MOST_MOVES):
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


def _run_s(pieces_s: FloatArray, shape: Configuration, rounds: int) -> FloatArray:
    cut = ScheduleShape(shape.stages, shape.chunks, rounds * shape.stages)
    times = PassTimes(FORWARD * pieces_s, (1 - FORWARD) * pieces_s)
    ends = spans("interleaved", cut, times.of_kinds("interleaved", cut), later=np.maximum)
    found: FloatArray = np.max(ends.over_s, axis=0)
    return found


PRICE_STEPS = 12
"""Prices on operators that move, between one that counts for nothing and one that decides."""

Found = tuple[float, Ends] | None
Cut = Callable[[Sequence[FloatArray]], Found]


def cut_near(
    cut: Cut, tables: Sequence[FloatArray], moved: Sequence[FloatArray], most: int | None
) -> Found:
    """The best cuts that move so few operators, as far as a price on them finds these.

    Args:
        cut: finds the best cuts of pieces with such times.
        tables: for each piece the seconds of every interval.
        moved: for each piece the operators of every interval that move.
        most: that may move; None for any number.
    """
    found = cut(tables)
    if most is None or found is None or is_near(moved, found[1], most):
        return found
    low, high = 0.0, _decisive(tables)
    best: Found = None
    for step in range(PRICE_STEPS):
        price_s = high if step == 0 else (low + high) / 2
        found = cut([own + price_s * count for own, count in zip(tables, moved, strict=True)])
        if found is None:
            return None
        if is_near(moved, found[1], most):
            best, high = found, price_s
        elif step == 0:
            return None
        else:
            low = price_s
    return best


def is_near(moved: Sequence[FloatArray], ends: Ends, most: int | None) -> bool:
    """Whether cuts move no more operators than may move."""
    return most is None or sum(at_ends(moved, ends)) <= most


def _decisive(tables: Sequence[FloatArray]) -> float:
    """A price on one operator that no time outweighs."""
    return sum(float(table[np.isfinite(table)].max(initial=0.0)) for table in tables)
