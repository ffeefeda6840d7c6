"""Stages in a row against all ways to cut."""

import itertools

import numpy as np
import pytest

from costmodel.schedules.closed_form import pipeline_time_s
from planner.pipeline.stage_cuts import cut_sequence

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("seed", range(30))
def test_the_best_ends_are_those_that_trying_all_finds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    count, stages = int(draw.integers(2, 8)), int(draw.integers(1, 5))
    stages = min(stages, count)
    micro_batches = int(draw.integers(1, 9))
    tables = []
    for _ in range(stages):
        table = draw.integers(1, 30, (count, count + 1)).astype(float)
        table[draw.random(table.shape) < 0.3] = np.inf
        table[np.tri(count, count + 1, dtype=bool)] = np.inf
        tables.append(table)
    best = np.inf
    for inner in itertools.combinations(range(1, count), stages - 1):
        ends = (*inner, count)
        times = [t[i, j] for t, i, j in zip(tables, (0, *inner), ends, strict=True)]
        if np.isfinite(times).all():
            best = min(best, pipeline_time_s(times, micro_batches))
    found = cut_sequence(tables, micro_batches)
    assert (np.inf if found is None else found[0]) == best


def test_a_stage_that_has_no_room_is_passed_over() -> None:
    first = np.array([[np.inf, np.inf, 5.0], [np.inf, np.inf, 1.0]])
    assert cut_sequence([first, first], 4) is None
