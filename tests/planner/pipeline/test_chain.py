"""Cutting a chain is exact: it equals enumeration, with and without memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.schedules.closed_form import pipeline_time_s
from planner.pipeline.chain import StageTable, cut_chain, least_in_order_s

Row = list[tuple[int, int, int]]
"""Stages: first segment, end, number of the submesh."""


def rows(table: StageTable, devices: int, start: int = 0) -> Iterator[Row]:
    """Everything that can be done from a segment on, with all devices."""
    if start == table.segments:
        if devices == 0:
            yield []
        return
    for end in range(start + 1, table.segments + 1):
        for index, size in enumerate(table.sizes):
            if size <= devices:
                for more in rows(table, devices - size, end):
                    yield [(start, end, index), *more]


def times_of(table: StageTable, row: Row, micro_batches: int) -> list[float]:
    found = []
    for place, stage in enumerate(row):
        held = min(micro_batches, len(row) - place, max(len(table.within_s), 1))
        own = table.within_s[held - 1] if table.within_s else table.time_s
        found.append(float(own[stage]))
        if place and table.entry_s is not None:
            sides = (row[place - 1][2], stage[2])
            found[-1] += max(float(table.entry_s[stage[0], side]) for side in sides)
    return found


def enumerated(
    table: StageTable, devices: int, micro_batches: int, stages: tuple[int, int] | None
) -> float:
    """The best of everything that can be done."""
    fewest, most = stages or (1, devices)
    found = (times_of(table, row, micro_batches) for row in rows(table, devices)
             if fewest <= len(row) <= most)  # fmt: skip
    steps = (pipeline_time_s(own, micro_batches) for own in found if max(own) < math.inf)
    return min(steps, default=math.inf)


@st.composite
def problems(
    draw: st.DrawFn,
) -> tuple[StageTable, int, int, tuple[int, int] | None]:
    count = draw(st.integers(1, 5))
    sizes = draw(st.sampled_from([(1,), (1, 2), (2,), (1, 2, 4)]))
    numbers = st.integers(1, 9)
    time_s = np.full((count, count + 1, len(sizes)), np.inf)
    within = [np.full_like(time_s, np.inf) for _ in range(draw(st.integers(0, 3)))]
    entry_s = np.zeros((count, len(sizes)))
    for i, j in itertools.combinations(range(count + 1), 2):
        for s in range(len(sizes)):
            time_s[i, j, s] = draw(numbers)
            for own in within:
                own[i, j, s] = draw(st.one_of(numbers, st.just(math.inf)))
            entry_s[i, s] = draw(st.integers(0, 4)) if i else 0
    entry = entry_s if draw(st.booleans()) else None
    fewest = draw(st.integers(1, 3))
    stages = (fewest, fewest + draw(st.integers(0, 2))) if draw(st.booleans()) else None
    devices, micro = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    return StageTable(time_s, sizes, tuple(within), entry), devices, micro, stages


@given(problems(), st.sampled_from([0.0, 0.3]))
def test_it_equals_enumeration(
    problem: tuple[StageTable, int, int, tuple[int, int] | None], spacing: float
) -> None:
    """Exact without a spacing; with one the bound holds, and what is found can be."""
    table, devices, micro_batches, stages = problem
    expected = enumerated(table, devices, micro_batches, stages)
    found = cut_chain(table, devices, micro_batches, stages=stages, spacing=spacing)
    if found is None:
        assert math.isinf(expected)
        return
    if spacing:
        assert found.bound_s <= expected * (1 + 1e-9) <= found.step_time_s * (1 + 2e-9)
    else:
        assert found.step_time_s == pytest.approx(expected)
        assert found.bound_s == pytest.approx(expected)
    assert sum(s.devices for s in found.stages) == devices
    ends = [s.end for s in found.stages]
    assert [s.start for s in found.stages] == [0, *ends[:-1]]
    assert ends[-1] == table.segments


@given(problems(), st.sampled_from([0.0, 0.3]), st.integers(0, 99))
def test_what_all_stages_do_together_bounds_a_step_too(
    problem: tuple[StageTable, int, int, tuple[int, int] | None], spacing: float, seed: int
) -> None:
    """As enumeration says without a spacing; with one it is no more."""
    shared, devices, micro_batches, stages = problem
    shared = replace(shared, within_s=())
    draw = np.random.default_rng(seed).random(shared.time_s.shape)
    steady = replace(shared, time_s=np.where(np.isfinite(shared.time_s), 9 * draw, np.inf))
    fewest, most = stages or (1, devices)

    def even_s(count: int, sum_s: float) -> float:
        return (micro_batches + count - 1) * sum_s / count

    expected = min(
        (
            max(micro_batches * max(times_of(shared, row, micro_batches)),
                even_s(len(row), sum(times_of(steady, row, micro_batches))))
            for row in rows(shared, devices) if fewest <= len(row) <= most
        ), default=math.inf,
    )  # fmt: skip
    if cut_chain(shared, devices, micro_batches, stages=(fewest, most)) is None:
        return
    found = least_in_order_s(
        shared, steady, devices, micro_batches, (fewest, most), spacing, even_s
    )
    if spacing:
        assert found <= expected * (1 + 1e-9)
    else:
        assert found == pytest.approx(expected)


def test_the_bound_holds_where_all_times_lie_closer_than_the_spacing() -> None:
    """Two ways to cut: the one of the least sum has the slower stage."""
    table = StageTable(np.full((3, 4, 1), np.inf), (1,))
    for (start, end), time_s in {
        (0, 1): 1.0,
        (1, 3): 0.9991,
        (0, 2): 0.99951,
        (2, 3): 0.99965,
    }.items():
        table.time_s[start, end, 0] = time_s
    found = cut_chain(table, 2, 100, stages=(2, 2), spacing=1e-3)
    assert found is not None
    assert found.bound_s <= pipeline_time_s((0.99951, 0.99965), 100)
