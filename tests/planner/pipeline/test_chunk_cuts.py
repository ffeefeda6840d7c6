"""Cuts into pieces that take turns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.pipeline.chain import FloatArray
from planner.pipeline.space import Configuration
from planner.pipeline.stage_cuts import Ends, _one_by_one, best_cuts, cut_evenly, merit, moved_cuts

SHAPES = st.sampled_from(
    [Configuration(2, 1, 8, 2), Configuration(2, 1, 4, 3), Configuration(3, 1, 6, 2)]
)


def table_of(times: FloatArray) -> FloatArray:
    """Of intervals of segments that take so long, one after the other."""
    sums = np.concatenate(([0.0], np.cumsum(times)))
    every = sums[None, :] - sums[:-1, None]
    return np.where(every > 0, every, np.inf)


def ways(count: int, pieces: int) -> list[Ends]:
    return [(*inner, count) for inner in itertools.combinations(range(1, count), pieces - 1)]


@settings(max_examples=60)
@given(data=st.data(), shape=SHAPES)
def test_cuts_are_near_the_best_of_all(data: st.DataObject, shape: Configuration) -> None:
    count = data.draw(st.integers(shape.pieces, 10))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    tables = [table_of(rng.uniform(0.2, 1.0, count))] * shape.pieces
    found = best_cuts(tables, shape)
    assert found is not None
    assert found[0] == pytest.approx(merit(tables, found[1], shape)[0])
    best_s = min(merit(tables, ends, shape)[0] for ends in ways(count, shape.pieces))
    assert best_s * (1 - 1e-9) <= found[0] <= 1.3 * best_s


@settings(max_examples=60)
@given(data=st.data(), shape=SHAPES)
def test_no_window_can_be_cut_better(data: st.DataObject, shape: Configuration) -> None:
    count = data.draw(st.integers(shape.pieces, 10))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    tables = [table_of(rng.uniform(0.2, 1.0, count))] * shape.pieces
    start = tuple(count * (k + 1) // shape.pieces for k in range(shape.pieces))
    step_s, ends = moved_cuts(tables, start, shape)
    assert step_s <= merit(tables, start, shape)[0]
    for others in ways(count, shape.pieces):
        kept = [k for k, (a, b) in enumerate(zip(ends, others, strict=True)) if a != b]
        if kept and kept[-1] - kept[0] < shape.stages - 1 and _in_one(kept, shape):
            assert merit(tables, others, shape)[0] >= step_s * (1 - 1e-9)


def _in_one(changed: list[int], shape: Configuration) -> bool:
    """Whether the ends of one window have changed."""
    firsts = range(0, shape.pieces - shape.stages + 1, max(shape.stages // 2, 1))
    return any(f <= changed[0] and changed[-1] < f + shape.stages - 1 for f in firsts)


def test_ends_that_help_only_together_are_moved() -> None:
    times = np.array([2.0, 1.0, 1.0, 1.0, 1.5, 2.0, 1.5, 1.0, 1.5, 1.5, 2.0, 2.0])
    shape = Configuration(4, 1, 32, 2)
    tables = [table_of(times)] * shape.pieces
    found = moved_cuts(tables, (1, 3, 4, 6, 7, 9, 10, 12), shape)
    best_s = min(merit(tables, ends, shape)[0] for ends in ways(len(times), shape.pieces))
    assert found[0] == pytest.approx(best_s)
    assert _one_by_one(tables, (1, 3, 4, 6, 7, 9, 10, 12), shape)[0][0] > 1.05 * best_s


@given(data=st.data(), stages=st.integers(1, 4))
def test_cut_evenly_has_the_least_slowest_stage(data: st.DataObject, stages: int) -> None:
    count = data.draw(st.integers(stages, 8))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    tables = [table_of(rng.uniform(0.2, 1.0, count)) for _ in range(stages)]

    def times(ends: Ends) -> list[float]:
        pairs = zip(tables, itertools.pairwise((0, *ends)), strict=True)
        return [float(table[place]) for table, place in pairs]

    found = cut_evenly(tables)
    assert found is not None
    every = [times(ends) for ends in ways(count, stages)]
    assert max(times(found)) == pytest.approx(min(max(own) for own in every))
    fast = [sum(own) for own in every if max(own) <= max(times(found)) * (1 + 1e-12)]
    assert sum(times(found)) == pytest.approx(min(fast))
    assert cut_evenly([np.full((2, 3), np.inf)] * 2) is None
