"""Cuts of a network into pieces that take turns on the parts of the machine.

Piece k runs on part k mod p. As many pieces in a row as there are parts are each on another one,
so the best cuts among them, the rest of the network cut as it is, follow as for stages without
chunks. Such windows move over the network as long as that helps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.stages.chain import FloatArray, pipeline_time_s
from planner.stages.menu import Shape
from planner.stages.sequence import Ends, cut_evenly, cut_sequence

ROUNDS = 4
"""Times that all windows are looked at, at most."""


def best_cuts(tables: Sequence[FloatArray], shape: Shape) -> tuple[float, Ends] | None:
    """The best cuts: seconds of a step, and where the pieces end. Exact without chunks; with them,
    from where no piece is slow, ends are moved as long as that helps.
    """
    found = cut_sequence(tables, shape.micro_batches * shape.chunks)
    if found is None or shape.chunks == 1:
        return found
    return moved_cuts(tables, found[1], shape)


def moved_cuts(tables: Sequence[FloatArray], ends: Ends, shape: Shape) -> tuple[float, Ends]:
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


def _in_window(tables: Sequence[FloatArray], ends: Ends, shape: Shape, first: int) -> Ends | None:
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
    tables: Sequence[FloatArray], ends: Ends, shape: Shape
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


def merit(tables: Sequence[FloatArray], ends: Ends, shape: Shape) -> tuple[float, float]:
    """Seconds of a step, then how uneven the parts of the machine are."""
    parts = parts_s(tables, ends, shape)
    if math.isinf(max(parts)):
        return math.inf, math.inf
    step_s = pipeline_time_s(parts, shape.micro_batches, shape.chunks)
    return step_s, sum(part * part for part in parts)


def parts_s(tables: Sequence[FloatArray], ends: Ends, shape: Shape) -> list[float]:
    """Seconds of a micro-batch on each part of the machine."""
    pieces = zip(tables, (0, *ends[:-1]), ends, strict=True)
    times = [float(table[i, j]) for table, i, j in pieces]
    return [sum(times[part :: shape.stages]) for part in range(shape.stages)]
