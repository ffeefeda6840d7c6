"""A chain of segments over stages: which segments each stage takes, on how many devices.

Exact dynamic programming, as Zheng et al. do it (Alpa, OSDI 2022, section 5), for the closed form
of a step (`costmodel.schedules.closed_form.pipeline_time_s`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.schedules.closed_form import pipeline_time_s

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StageTable:
    """What every interval of segments would take as a stage on every size of submesh."""

    time_s: FloatArray
    """Shape (L, L + 1, S): seconds of one micro-batch, forward and backward, for the segments from
    i to j - 1 on `sizes[s]` devices; infinite where that cannot be, and for j <= i."""

    sizes: tuple[int, ...]
    """Devices of each kind of submesh, shape (S,)."""

    within_s: tuple[FloatArray, ...] = ()
    """Shape of `time_s`, within the memory: of a stage that keeps one micro-batch beside everything
    else, two, and so on; the last holds for all more. Empty if memory does not bind."""

    entry_s: FloatArray | None = None
    """Shape (L, S): seconds more in which a stage that begins with segment i receives a micro-batch
    and sends its gradient, where both sides have `sizes[s]` devices; between two sizes it takes as
    long as on the slower one. `None` if nothing is sent."""

    @property
    def segments(self) -> int:
        return len(self.time_s)

    def kept_s(self, micro_batches: int) -> FloatArray:
        """Times of a stage that keeps so many micro-batches."""
        if not self.within_s:
            return self.time_s
        return self.within_s[min(micro_batches, len(self.within_s)) - 1]

    def after_s(self, size: int, before: int) -> FloatArray:
        """Shape (L,): seconds in which a stage on one kind of submesh receives from another."""
        if self.entry_s is None:
            return np.zeros(self.segments)
        return np.maximum(self.entry_s[:, size], self.entry_s[:, before])


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: segments `start` to `end` - 1 on so many devices."""

    start: int
    end: int
    devices: int
    time_s: float
    """Of one micro-batch, with what it receives."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain cut into stages."""

    stages: tuple[Stage, ...]
    step_time_s: float
    bound_s: float
    """No other takes less."""
    slowest_s: float = 0.0
    """No other has a slowest stage that takes less."""


def cut_chain(
    table: StageTable,
    devices: int,
    micro_batches: int,
    *,
    stages: tuple[int, int] | None = None,
    spacing: float = 0.0,
) -> Chain | None:
    """The fastest stages that use all devices; None if there are none.

    Times that a stage may take are tried as the slowest one, in ascending order; below it the
    least sum follows by dynamic programming over segments, devices and the number of stages that
    come behind, which decides how many micro-batches a stage keeps (1F1B). Exact without a spacing.

    Args:
        table: of all intervals and submeshes.
        devices: to be used, all of them.
        micro_batches: of one step.
        stages: the shortest and the longest pipeline; any if it is not said.
        spacing: relative distance of the times tried; `bound_s` allows for it.
    """
    fewest, most = stages or (1, table.segments)
    most = min(most, table.segments, devices // min(table.sizes))
    sums = _Sums(table, devices, micro_batches, range(fewest - 1, most))
    every = sums.times_s()
    times = _spaced(every, spacing)
    shortest = sums.least(math.inf)
    if shortest is None:
        return None
    first = bisect_left(times, 1, key=lambda time_s: sums.least(float(time_s)) is not None)
    # Of those tried at one place none has its slowest stage below the place before, nor below all.
    lower_s = [every[0], *times[:-1]] if spacing else every
    best, bound_s = None, math.inf
    for place in range(first, len(times)):
        slowest_s = float(lower_s[place])
        least_s = _step_s(slowest_s, shortest[0], micro_batches)
        if best is not None and least_s >= best.step_time_s:
            break
        found = sums.least(float(times[place]))
        if found is None:
            continue
        bound_s = min(bound_s, _step_s(slowest_s, found[0], micro_batches))
        step_s = pipeline_time_s([s.time_s for s in found[1]], micro_batches)
        if best is None or step_s < best.step_time_s:
            best = Chain(found[1], step_s, 0.0)
    if best is None:
        return None
    bound_s = min(bound_s, best.step_time_s)
    return replace(best, bound_s=bound_s, slowest_s=float(lower_s[first]))


def least_in_order_s(
    shared: StageTable,
    steady: StageTable,
    devices: int,
    micro_batches: int,
    stages: tuple[int, int],
    spacing: float,
    even_s: Callable[[int, float], float],
) -> float:
    """Seconds that a step takes at least in the order of its passes, however it is cut.

    With t the slowest stage it takes m t, and no less than its stages do together, of those with
    none above t. The one rises with t, the other falls: the least of the larger is where they meet.

    Args:
        shared: times with a share of what happens once in a step.
        steady: without it.
        devices: to be used, all of them.
        micro_batches: of one step.
        stages: the shortest and the longest pipeline.
        spacing: relative distance of the times tried as the slowest.
        even_s: seconds of a step of so many stages whose times have such a sum, at least.
    """
    most = min(stages[1], shared.segments, devices // min(shared.sizes))
    sums = _Sums(shared, devices, micro_batches, range(stages[0] - 1, most), steady)
    every = sums.times_s()
    times = _spaced(every, spacing)
    lower_s = [every[0], *times[:-1]] if spacing else every

    def together_s(place: int) -> float:
        least = sums.of_each_count(float(times[place]))
        return min(even_s(behind + 1, sum_s) for behind, sum_s in least.items())

    first = bisect_left(
        range(len(times)), True, key=lambda k: micro_batches * lower_s[k] >= together_s(k)
    )
    below_s = together_s(first - 1) if first else math.inf
    return min(micro_batches * float(lower_s[first]) if first < len(times) else math.inf, below_s)


def _step_s(slowest_s: float, sum_s: float, micro_batches: int) -> float:
    """Seconds of a step at least whose slowest stage takes no less, nor all of them together."""
    return micro_batches * slowest_s + max(sum_s - slowest_s, 0.0)


def _spaced(times: FloatArray, spacing: float) -> FloatArray:
    """Some of ascending times, so far apart, and the last one."""
    kept: list[float] = []
    for time_s in times.tolist()[::-1]:
        if not kept or time_s < kept[-1] * (1 - spacing):
            kept.append(time_s)
    return np.array(kept[::-1])


@dataclass(slots=True)
class _Sums:
    """The least sums of the times of stages."""

    table: StageTable
    devices: int
    micro_batches: int
    behind: range
    """How many stages may come behind the first one."""
    summed: StageTable | None = None
    """What is added up, where it is not what the bound is for."""

    def times_s(self) -> FloatArray:
        """All that a stage may take, ascending."""
        table, kinds = self.table, range(len(self.table.sizes))
        found = [
            (own[:, :, size] + table.after_s(size, before)[:, None]).ravel()
            for own in table.within_s or (table.time_s,)
            for size in kinds
            for before in kinds
        ]
        every = np.concatenate(found)
        return np.unique(every[np.isfinite(every)])

    def least(self, bound_s: float) -> tuple[float, tuple[Stage, ...]] | None:
        """Stages of the least sum, none slower than the bound."""
        best, rows, found = np.inf, [], -1
        for behind, (sum_s, taken) in enumerate(self._rounds(bound_s)):
            rows.append(taken)
            if behind in self.behind and sum_s < best:
                best, found = sum_s, behind
        return None if found < 0 else (best, tuple(self._traced(rows[: found + 1])))

    def of_each_count(self, bound_s: float) -> dict[int, float]:
        """The least sum by how many stages come behind the first one; infinite if there is none."""
        found = enumerate(self._rounds(bound_s))
        return {behind: sum_s for behind, (sum_s, _) in found if behind in self.behind}

    def _rounds(self, bound_s: float) -> Iterator[tuple[float, IntArray]]:
        """The least sum of one stage, of two, and so on; and the end and submesh of each stage."""
        count = self.table.segments
        # cost[i, d, a]: segments i to the end on d devices, behind a stage on submesh a, in exactly
        # so many stages as rounds are done.
        cost = np.full((count + 1, self.devices + 1, len(self.table.sizes)), np.inf)
        cost[count, 0] = 0.0
        for behind in range(self.behind.stop):
            cost, taken = self._one_more(cost, min(self.micro_batches, behind + 1), bound_s)
            yield float(cost[0, self.devices, 0]), taken

    def _one_more(self, cost: FloatArray, held: int, bound_s: float) -> tuple[FloatArray, IntArray]:
        """One stage in front of what is known: costs, and the end and submesh that each takes.

        `taken[i, d, a]` is `end * S + size`, or -1.
        """
        table, kinds = self.table, range(len(self.table.sizes))
        own_s, count = table.kept_s(held), table.segments
        longer = np.full_like(cost, np.inf)
        taken = np.full(cost.shape, -1, dtype=np.int64)
        for size, devices in enumerate(table.sizes):
            rest = cost[None, :, : self.devices + 1 - devices, size]
            for before in kinds if devices <= self.devices else ():
                slowest = own_s[:, :, size] + table.after_s(size, before)[:, None]
                times = slowest
                if self.summed is not None:
                    received = self.summed.after_s(size, before)[:, None]
                    times = self.summed.time_s[:, :, size] + received
                times = np.where(slowest <= bound_s, times, np.inf)
                totals = times[:, :, None] + rest
                ends = totals.argmin(axis=1)
                least = np.take_along_axis(totals, ends[:, None, :], axis=1)[:, 0, :]
                better = least < longer[:count, devices:, before]
                longer[:count, devices:, before][better] = least[better]
                taken[:count, devices:, before][better] = (ends * len(kinds) + size)[better]
        return longer, taken

    def _traced(self, rows: Sequence[IntArray]) -> Iterator[Stage]:
        table, start, left, before = self.table, 0, self.devices, 0
        for behind in reversed(range(len(rows))):
            end, size = divmod(int(rows[behind][start, left, before]), len(table.sizes))
            own_s = table.kept_s(min(self.micro_batches, behind + 1))[start, end, size]
            time_s = float(own_s + table.after_s(size, before)[start])
            yield Stage(start, end, table.sizes[size], time_s)
            start, left, before = end, left - table.sizes[size], size
