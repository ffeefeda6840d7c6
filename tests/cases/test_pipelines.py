"""Published cases of pipeline stages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from planner.stages.chain import StageTable, cut_chain
from tests.cases.case_file import case

POWERS = {"work*n^-0.7": 0.7, "work": 0.0}
"""Seconds of work on n devices, as the cases write it."""


def table_of(costs: list[float], sizes: tuple[int, ...], power: float) -> StageTable:
    count = len(costs)
    sums = np.concatenate([[0.0], np.cumsum(costs)])
    time_s = np.full((count, count + 1, len(sizes)), np.inf)
    for i, j in itertools.combinations(range(count + 1), 2):
        time_s[i, j] = (sums[j] - sums[i]) * np.array(sizes, dtype=float) ** -power
    return StageTable(time_s, sizes)


@pytest.mark.parametrize(
    "name", ["pipe_dp_uniform_n07", "pipe_dp_uniform_n07_B1", "pipe_dp_skewed"]
)
def test_a_chain_in_closed_form(name: str) -> None:
    given, expected = case(name)["instance"], case(name)["expected"]
    sizes = tuple(given["submesh_sizes"])
    table = table_of(given["layer_cost"], sizes, POWERS[given["stage_time"]])
    found = cut_chain(table, given["devices"], given["microbatches"])
    assert found is not None
    assert found.step_time_s == pytest.approx(expected["T"], rel=1e-6)
    if "stages" in expected:
        stages = [[s.start, s.end, s.devices] for s in found.stages]
        assert stages == expected["stages"]
