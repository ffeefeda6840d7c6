"""What a step of a pipeline takes at least.

Part s of the machine begins when a micro-batch has come through all parts before it, works on m of
them, and what it sends back for the last one goes through all parts before it again. With u the
time of a micro-batch, o what happens once in a step, and P_s the sum of u over all before s, no
step takes less than

    m u_s + o_s    and    P_s + m u_s + o_0,

for gradients are added up when a part's passes are over, and parameters updated after that. The
tables have the least of u, of u + o / m, of u + o and of the update by themselves, so a bound holds
whatever layouts a stage has.

The order of the passes alone bounds it too, however parts share the work: see
`costmodel.schedules.least_step`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from costmodel.schedules.least_step import NOTHING, Work, even_step_s, step_weights
from planner.pipeline.chain import FloatArray
from planner.pipeline.space import Configuration
from planner.pipeline.stage_cuts import Ends, least_sum_s

Amount = TypeVar("Amount", float, FloatArray)


class Least(NamedTuple, Generic[Amount]):
    """The least that one piece takes as a stage, or every interval of a network; seconds of a
    micro-batch.
    """

    shared_s: Amount
    """With the share in a micro-batch of what happens once in a step."""
    steady_s: Amount
    """Without it."""
    whole_s: Amount
    """With all of it."""
    update_s: Amount
    """Of a step: what happens when all passes are over."""


def cut_step_s(least: Sequence[Least[FloatArray]], ends: Ends, shape: Configuration) -> float:
    """Seconds of a step with such cuts at least.

    Args:
        least: for each piece.
        ends: of the pieces.
        shape: of the step.
    """
    places = pairwise((0, *ends))
    pairs = zip(least, places, strict=True)
    pieces = [Least(*(float(own[place]) for own in piece)) for piece, place in pairs]
    return given_step_s(pieces, shape)


def given_step_s(
    pieces: Sequence[Least[float]], shape: Configuration, *, closely: bool = False
) -> float:
    """Seconds of a step of such pieces at least.

    Args:
        pieces: in the order of the network.
        shape: of the step.
        closely: solve the linear programme where a step has few passes.
    """
    parts, times = shape.stages, shape.micro_batches
    shared, steady = ([piece[kind] for piece in pieces] for kind in (0, 1))
    work = Work(sum(shared), sum(steady), sum(piece.update_s for piece in pieces))
    once_s = max(pieces[0].whole_s - steady[0], 0.0) if shape.chunks == 1 else 0.0
    busiest_s = max(sum(shared[part::parts]) for part in range(parts))
    found = [times * busiest_s, even_step_s(work, shape, closely=closely)]
    before_s = 0.0
    for part in range(parts):
        found.append(before_s + times * sum(steady[part::parts]) + (once_s if part else 0.0))
        before_s += steady[part]
    return max(found)


def least_step_s(
    least: Sequence[Least[FloatArray]],
    shape: Configuration,
    total: Work = NOTHING,
    *,
    closely: bool = False,
) -> float:
    """Seconds of a step at least, whatever its cuts; infinite if there are none.

    Args:
        least: for each piece, infinite where an interval cannot be one.
        shape: of the step.
        total: what else is known of all stages together, at least.
        closely: solve the linear programme where a step has few passes.
    """
    kinds = zip(*((own.shared_s, own.steady_s, own.update_s) for own in least), strict=True)
    work = Work(*map(max, map(least_sum_s, kinds), total))
    sums = (
        least_sum_s([_weighted(own, weights) for own in least])
        for weights in step_weights(work, shape, closely=closely)
    )
    even_s = max(even_step_s(work, shape, closely=closely), *sums)
    return even_s if shape.chunks > 1 else max(even_s, _in_a_row_s(least, shape.micro_batches))


def _weighted(least: Least[FloatArray], weights: Work) -> FloatArray:
    own = zip((least.shared_s, least.steady_s, least.update_s), weights, strict=True)
    found: FloatArray = np.sum([weight * seconds for seconds, weight in own if weight], axis=0)
    return found


def _in_a_row_s(least: Sequence[Least[FloatArray]], times: int) -> float:
    """The least T for which some cuts have no stage above T / m, nor a stage that ends later: the
    later ends fall as T rises, so both meet.
    """
    every = np.unique(np.concatenate([own.shared_s.ravel() for own in least]))
    limits = times * every[np.isfinite(every)]
    first = bisect_left(limits, 1, key=lambda at: _latest_s(least, times, float(at)) <= at)
    met_s = float(limits[first]) if first < len(limits) else math.inf
    below_s = _latest_s(least, times, float(limits[first - 1])) if first else math.inf
    return min(met_s, below_s)


def _latest_s(least: Sequence[Least[FloatArray]], times: int, limit_s: float) -> float:
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
