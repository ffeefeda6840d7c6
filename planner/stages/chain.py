"""A chain of segments over stages: which segments each stage takes, on how many devices.

The time of a step with m micro-batches is that of one micro-batch through all stages and of m - 1
more through the slowest: m max t + (sum t - max t) / v, with v chunks per stage (v = 1: no
interleaving).

Source: Zheng et al., "Alpa: Automating Inter- and Intra-Operator Parallelism for Distributed Deep
Learning", OSDI 2022, section 5, equation 2 (v = 1); Narayanan et al., "Efficient Large-Scale
Language Model Training on GPU Clusters Using Megatron-LM", SC 2021, section 2.2.2 (v > 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

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

    most_in_flight: IntArray | None = None
    """Shape of `time_s`: micro-batches whose activations fit beside everything else; 0 if not even
    one does. `None` if memory does not bind."""

    @property
    def segments(self) -> int:
        return len(self.time_s)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: segments `start` to `end` - 1 on so many devices."""

    start: int
    end: int
    devices: int
    time_s: float


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain cut into stages."""

    stages: tuple[Stage, ...]
    step_time_s: float


def pipeline_time_s(stage_times_s: Sequence[float], micro_batches: int, chunks: int = 1) -> float:
    """Seconds of a step.

    >>> pipeline_time_s([2.0, 2.0, 2.0, 2.0], 16)
    38.0
    """
    slowest = max(stage_times_s)
    return micro_batches * slowest + (sum(stage_times_s) - slowest) / chunks


def cut_chain(
    table: StageTable,
    devices: int,
    micro_batches: int,
    *,
    chunks: int = 1,
    most_stages: int | None = None,
) -> Chain | None:
    """The fastest stages that use all devices; None if there are none.

    Every time that a stage may take is tried as the slowest one, in ascending order; below it the
    least sum follows by dynamic programming over segments, devices and the number of stages that
    come behind, which decides how many micro-batches a stage keeps (1F1B). Exact.

    Args:
        table: of all intervals and submeshes.
        devices: to be used, all of them.
        micro_batches: of one step.
        chunks: parts of each stage that take turns.
        most_stages: the longest pipeline; as many as there are segments if it is not said.
    """
    longest = min(most_stages or table.segments, table.segments, devices // min(table.sizes))
    bounds = np.unique(table.time_s[np.isfinite(table.time_s)])
    least_sum_s = _least_sum_s(table, devices)
    best: Chain | None = None
    for bound_s in bounds:
        floor_s = micro_batches * bound_s + max(least_sum_s - bound_s, 0.0) / chunks
        if best is not None and floor_s >= best.step_time_s:
            break
        stages = _least_sum(table, devices, micro_batches, float(bound_s), longest)
        if stages is None:
            continue
        step_s = pipeline_time_s([s.time_s for s in stages], micro_batches, chunks)
        if best is None or step_s < best.step_time_s:
            best = Chain(stages, step_s)
    return best


def _least_sum_s(table: StageTable, devices: int) -> float:
    """A lower bound of the sum of all stages: memory and the slowest stage left aside."""
    stages = _least_sum(
        StageTable(table.time_s, table.sizes), devices, 1, np.inf, min(table.segments, devices)
    )
    return 0.0 if stages is None else sum(s.time_s for s in stages)


def _least_sum(
    table: StageTable, devices: int, micro_batches: int, bound_s: float, longest: int
) -> tuple[Stage, ...] | None:
    """Stages of the least sum, none slower than the bound."""
    allowed = np.where(table.time_s <= bound_s, table.time_s, np.inf)
    count = table.segments
    # cost[i, d]: segments i to the end on d devices, in exactly so many stages as rounds are done.
    cost = np.full((count + 1, devices + 1), np.inf)
    cost[count, 0] = 0.0
    best, rows = np.inf, []
    found: int | None = None
    for behind in range(longest):
        held = min(micro_batches, behind + 1)
        cost, taken = _one_more(allowed, table, devices, cost, held)
        rows.append(taken)
        if cost[0, devices] < best:
            best, found = float(cost[0, devices]), behind
    return None if found is None else tuple(_traced(table, rows, found, devices))


def _one_more(
    allowed: FloatArray, table: StageTable, devices: int, cost: FloatArray, held: int
) -> tuple[FloatArray, IntArray]:
    """One stage in front of what is known: costs, and the end and submesh that each takes.

    `taken[i, d]` is `end * S + size`, or -1.
    """
    count, sizes = table.segments, table.sizes
    longer = np.full_like(cost, np.inf)
    taken = np.full(cost.shape, -1, dtype=np.int64)
    for index, size in enumerate(sizes):
        times = allowed[:, :, index]
        if table.most_in_flight is not None:
            times = np.where(table.most_in_flight[:, :, index] >= held, times, np.inf)
        if size > devices:
            continue
        # totals[i, j, d]: segments i to j - 1 here, the rest on d devices.
        totals = times[:, :, None] + cost[None, :, : devices + 1 - size]
        ends = totals.argmin(axis=1)
        least = np.take_along_axis(totals, ends[:, None, :], axis=1)[:, 0, :]
        better = least < longer[:count, size:]
        longer[:count, size:][better] = least[better]
        taken[:count, size:][better] = (ends * len(sizes) + index)[better]
    return longer, taken


def _traced(
    table: StageTable, rows: Sequence[IntArray], behind: int, devices: int
) -> Iterator[Stage]:
    start, left = 0, devices
    for taken in reversed(rows[: behind + 1]):
        end, index = divmod(int(taken[start, left]), len(table.sizes))
        size = table.sizes[index]
        yield Stage(start, end, size, float(table.time_s[start, end, index]))
        start, left = end, left - size
