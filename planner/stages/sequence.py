"""Exactly so many stages in a row, each with a table of its own: what interval it may take.

As `planner.stages.chain`, but for stages of equal devices whose tables differ in what fits: the
first keeps most micro-batches on the way. Exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planner.stages.chain import FloatArray, IntArray, pipeline_time_s

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
    times = np.unique(np.concatenate([t[np.isfinite(t)] for t in tables]))
    first = _least_slowest(tables, times)
    if first is None:
        return None
    shortest = _least_sum(tables, np.inf)
    least_s = np.inf if shortest is None else shortest[0]
    best: tuple[float, Ends] | None = None
    for bound_s in times[first:]:
        if best is not None and (micro_batches - 1) * bound_s + least_s >= best[0]:
            break
        found = _least_sum(tables, float(bound_s))
        if found is None:
            continue
        starts = (0, *found[1][:-1])
        own = [float(t[i, j]) for t, i, j in zip(tables, starts, found[1], strict=True)]
        step_s = pipeline_time_s(own, micro_batches)
        if best is None or step_s < best[0]:
            best = (step_s, found[1])
    return best


def cut_evenly(tables: Sequence[FloatArray]) -> Ends | None:
    """The ends with the least slowest stage, and among those the least sum; None if nothing fits.

    Args:
        tables: as for `cut_sequence`.
    """
    times = np.unique(np.concatenate([t[np.isfinite(t)] for t in tables]))
    first = _least_slowest(tables, times)
    found = None if first is None else _least_sum(tables, float(times[first]))
    return None if found is None else found[1]


def least_sum_s(tables: Sequence[FloatArray]) -> float:
    """The least sum of the times of all stages; infinite if there is no way."""
    found = _least_sum(tables, np.inf)
    return float(np.inf) if found is None else found[0]


def _least_slowest(tables: Sequence[FloatArray], times: FloatArray) -> int | None:
    """Index of the least time that the slowest stage can have."""
    return _first_true(len(times), lambda at: _least_sum(tables, float(times[at])) is not None)


def _first_true(count: int, holds: Callable[[int], bool]) -> int | None:
    """The first index at which something holds that holds for all behind it too."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low if low < count else None


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
