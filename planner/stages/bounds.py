"""What a step of a pipeline takes at least.

Part s of the machine begins when a micro-batch has come through all parts before it, works on m of
them, and what it sends back for the last one goes through all parts before it again. With u the
time of a micro-batch, o what happens once in a step, and P_s the sum of u over all before s, no
step takes less than

    m u_s + o_s    and    P_s + m u_s + o_0,

for gradients are added up when a part's passes are over, and parameters updated after that. The
tables have the least of u, of u + o / m and of u + o by themselves, so a bound holds whatever
layouts a stage has.

However p parts share the work U of a micro-batch, the order of the passes leaves no less than

    (m + p - 1) U / p            1F1B, m > p,
    2 p U / (2 p + 1 - m)        1F1B, m <= p,
    (m + (p - 1) / 2 v) U / p    interleaved, v chunks.

A chain of passes, each of which waits for the one before it, takes no longer than the step, nor
does the mean of several chains. For interleaved stages take that which goes up to chunk c of part
s with the first micro-batch, through all that the part then has in its order, and down again with
the last one: it has m times u_s, u of all pieces before, and p times less of what the part did in
its chunks before c. Weights 1 / (p v) for c > 0, and what makes the sum over c of each s grow
linearly with s for c = 0, give every piece the number above. For 1F1B chains turn at the last part
and go up once more before the last micro-batch. The first two are exact (linear programmes over
all ways to share the work say the same; the tests solve them), the third leaves up to half of the
idle time out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from planner.stages.chain import FloatArray
from planner.stages.menu import Shape
from planner.stages.sequence import Ends, least_sum_s


class Least(NamedTuple):
    """The least that intervals of a network take as stages, seconds of a micro-batch."""

    shared_s: FloatArray
    """With the share in a micro-batch of what happens once in a step."""
    steady_s: FloatArray
    """Without it."""
    whole_s: FloatArray
    """With all of it."""


class PieceLeast(NamedTuple):
    """The same of one piece."""

    shared_s: float
    steady_s: float
    whole_s: float


def even_step_s(shared_s: float, steady_s: float, shape: Shape) -> float:
    """Seconds of a step that parts of the machine take at least, however they share the work.

    Args:
        shared_s: of one micro-batch through all parts, with its share of what happens once.
        steady_s: the same without it.
        shape: of the step.
    """
    parts, times = shape.stages, shape.micro_batches
    if shape.chunks > 1:
        rounds = (times + (parts - 1) / (2 * shape.chunks)) / parts
    elif times > parts:
        rounds = (times + parts - 1) / parts
    else:
        rounds = 2 * parts / (2 * parts + 1 - times)
    return max(times * shared_s / parts, rounds * steady_s)


def cut_step_s(least: Sequence[Least], ends: Ends, shape: Shape) -> float:
    """Seconds of a step with such cuts at least.

    Args:
        least: for each piece.
        ends: of the pieces.
        shape: of the step.
    """
    places = pairwise((0, *ends))
    pairs = zip(least, places, strict=True)
    pieces = [PieceLeast(*(float(own[place]) for own in piece)) for piece, place in pairs]
    return given_step_s(pieces, shape)


def given_step_s(pieces: Sequence[PieceLeast], shape: Shape) -> float:
    """Seconds of a step of such pieces at least."""
    parts, times = shape.stages, shape.micro_batches
    shared, steady = ([piece[kind] for piece in pieces] for kind in (0, 1))
    once_s = max(pieces[0].whole_s - steady[0], 0.0) if shape.chunks == 1 else 0.0
    busiest_s = max(sum(shared[part::parts]) for part in range(parts))
    found = [times * busiest_s, even_step_s(sum(shared), sum(steady), shape)]
    before_s = 0.0
    for part in range(parts):
        found.append(before_s + times * sum(steady[part::parts]) + (once_s if part else 0.0))
        before_s += steady[part]
    return max(found)


def least_step_s(least: Sequence[Least], shape: Shape) -> float:
    """Seconds of a step at least, whatever its cuts; infinite if there are none.

    Args:
        least: for each piece, infinite where an interval cannot be one.
        shape: of the step.
    """
    shared, steady = (least_sum_s([own[kind] for own in least]) for kind in (0, 1))
    even_s = even_step_s(shared, steady, shape)
    return even_s if shape.chunks > 1 else max(even_s, _in_a_row_s(least, shape.micro_batches))


def _in_a_row_s(least: Sequence[Least], times: int) -> float:
    """The least T for which some cuts have no stage above T / m, nor a stage that ends later: the
    later ends fall as T rises, so both meet.
    """
    every = np.unique(np.concatenate([own.shared_s.ravel() for own in least]))
    limits = times * every[np.isfinite(every)]
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        if _latest_s(least, times, float(limits[middle])) <= limits[middle]:
            high = middle
        else:
            low = middle + 1
    met_s = float(limits[low]) if low < len(limits) else math.inf
    below_s = _latest_s(least, times, float(limits[low - 1])) if low else math.inf
    return min(met_s, below_s)


def _latest_s(least: Sequence[Least], times: int, limit_s: float) -> float:
    """The least of the latest end of a stage over all cuts with no stage above the limit."""
    count = len(least[0].shared_s)
    behind = np.full(count + 1, np.inf)
    behind[count] = -np.inf
    for number in reversed(range(len(least))):
        own = least[number]
        fine = times * own.shared_s <= limit_s
        alone = times * (own.steady_s if number else own.shared_s)
        passing = own.steady_s if number else np.maximum(own.whole_s, own.steady_s)
        with np.errstate(invalid="ignore"):
            ends = np.where(fine, np.maximum(alone, passing + behind), np.inf)
        behind = np.append(ends.min(axis=1), np.inf)
    return float(behind[0])
