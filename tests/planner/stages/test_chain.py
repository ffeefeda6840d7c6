"""Cutting a chain is exact: it equals enumeration, with and without memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.stages.chain import StageTable, cut_chain, pipeline_time_s


def enumerated(table: StageTable, devices: int, micro_batches: int, chunks: int) -> float:
    """The best of everything that can be done."""

    def rest(start: int, left: int) -> Iterator[list[tuple[int, int, int]]]:
        if start == table.segments:
            if left == 0:
                yield []
            return
        for end in range(start + 1, table.segments + 1):
            for index, size in enumerate(table.sizes):
                if size <= left:
                    for more in rest(end, left - size):
                        yield [(start, end, index), *more]

    best = math.inf
    for stages in rest(0, devices):
        times = [float(table.time_s[s]) for s in stages]
        held = [min(micro_batches, len(stages) - k) for k in range(len(stages))]
        fits = table.most_in_flight is None or all(
            int(table.most_in_flight[s]) >= h for s, h in zip(stages, held, strict=True)
        )
        if fits and all(map(math.isfinite, times)):
            best = min(best, pipeline_time_s(times, micro_batches, chunks))
    return best


@st.composite
def problems(draw: st.DrawFn) -> tuple[StageTable, int, int, int]:
    count = draw(st.integers(1, 5))
    sizes = draw(st.sampled_from([(1,), (1, 2), (2,), (1, 2, 4)]))
    numbers = st.integers(1, 9)
    time_s = np.full((count, count + 1, len(sizes)), np.inf)
    flight = np.zeros(time_s.shape, dtype=np.int64)
    for i, j in itertools.combinations(range(count + 1), 2):
        for s in range(len(sizes)):
            time_s[i, j, s] = draw(numbers)
            flight[i, j, s] = draw(st.integers(0, 4))
    limit = flight if draw(st.booleans()) else None
    devices, micro, chunks = (
        draw(st.integers(1, 5)),
        draw(st.integers(1, 6)),
        draw(st.integers(1, 2)),
    )
    return StageTable(time_s, sizes, limit), devices, micro, chunks


@given(problems())
def test_it_equals_enumeration(problem: tuple[StageTable, int, int, int]) -> None:
    table, devices, micro_batches, chunks = problem
    expected = enumerated(table, devices, micro_batches, chunks)
    found = cut_chain(table, devices, micro_batches, chunks=chunks)
    if found is None:
        assert math.isinf(expected)
        return
    assert found.step_time_s == pytest.approx(expected)
    assert sum(s.devices for s in found.stages) == devices
    ends = [s.end for s in found.stages]
    assert [s.start for s in found.stages] == [0, *ends[:-1]]
    assert ends[-1] == table.segments
