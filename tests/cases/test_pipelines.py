"""Published cases of pipeline stages."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from costmodel.schedules.closed_form import pipeline_time_s
from planner.pipeline.chain import StageTable, cut_chain
from planner.pipeline.space import Configuration, in_flight
from planner.pipeline.stage_cuts import cut_sequence
from planner.problem import NodeTable, Problem
from planner.solvers import Budget, solver_by_name
from tests.cases.case_file import case

pytestmark = pytest.mark.fast

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


def test_layers_over_stages_within_memory_are_no_slower_than_published() -> None:
    """sapp_pp16_llama96: its answer came from a search with a time limit, and is not the best."""
    given, wanted = case("sapp_pp16_llama96")["instance"], case("sapp_pp16_llama96")["expected"]
    stages, layers = given["stages"], given["body"]["layers"]
    published = [layers // stages + more for more in wanted["layer_offset"]]
    rows = list(zip(range(stages), published, wanted["full_recompute_layers"], strict=True))
    assert [held_mb(given, s, n) for s, n, _ in rows] == wanted["param_mem"]
    assert [kept_mb(given, n, r) for _, n, r in rows] == wanted["act_mem_per_microbatch"]
    times = [seconds_of(given, s, n, r) for s, n, r in rows]
    own = pipeline_time_s(times, given["micro_batches"])
    assert own - given["head"]["time"] == pytest.approx(
        wanted["total_time"], abs=wanted["tolerance"]
    )
    tables = [np.full((layers, layers + 1), np.inf) for _ in range(stages)]
    for stage, table in enumerate(tables):
        for count in range(1, layers + 1):
            again = fewest_again(given, stage, count)
            if again is not None:
                starts = np.arange(layers - count + 1)
                table[starts, starts + count] = seconds_of(given, stage, count, again)
    found = cut_sequence(tables, given["micro_batches"])
    assert found is not None
    assert found[0] == 110_640 <= own


def held_mb(given: Mapping[str, Any], stage: int, layers: int) -> float:
    """Weights and their state on a stage."""
    ends = [given["head"]] * (stage == 0) + [given["tail"]] * (stage == given["stages"] - 1)
    return float(layers * given["body"]["param_mem"] + sum(end["mem"] for end in ends))


def kept_mb(given: Mapping[str, Any], layers: int, again: int) -> float:
    """Activations of one micro-batch, with some layers computed again."""
    body = given["body"]
    return float((layers - again) * body["act_mem"] + again * body["recompute_mem"])


def seconds_of(given: Mapping[str, Any], stage: int, layers: int, again: int) -> float:
    """Forward, twice that backward, and as much again for layers that are computed again."""
    body = given["body"]
    ends = [given["head"]] * (stage == 0) + [given["tail"]] * (stage == given["stages"] - 1)
    more = 2 * body["recompute_backward_coef"] * again * body["time"]
    return float(3 * layers * body["time"] + more + sum(end["time"] for end in ends))


def fewest_again(given: Mapping[str, Any], stage: int, layers: int) -> int | None:
    flight = in_flight(Configuration(given["stages"], 1, given["micro_batches"]))[stage]
    for again in range(layers + 1):
        kept = flight * kept_mb(given, layers, again)
        if held_mb(given, stage, layers) + kept <= given["max_memory_mb"]:
            return again
    return None


def test_what_stands_at_once_is_no_more_than_published() -> None:
    """nnscaler_dp_memory: its formula adds the most of each kind, whenever that is."""
    given, wanted = case("nnscaler_dp_memory")["instance"], case("nnscaler_dp_memory")["expected"]
    count, groups = len(given["time"]), given["recompute_groups"]
    kinds: list[tuple[list[float], list[tuple[int, int]]]] = [
        (given["param_mem"], [(0, len(groups) + 1)] * count),
        (given["activation"], [(0, len(groups))] * count),
        (given["optimizer_transient"], [(len(groups), len(groups) + 1)] * count),
        (given["recompute_mem"],
         [next((g, g + 1) for g, own in enumerate(groups) if n in own) for n in range(count)]),
    ]  # fmt: skip
    buffers = sum(sorted(given["buffer"])[-2:])
    nodes = tuple(
        NodeTable(np.array([given["time"][n]]), tuple(np.array([float(m[n])]) for m, _ in kinds))
        for n in range(count)
    )
    problem = Problem(
        nodes, (), tuple(range(count)), tuple(tuple(s[n] for _, s in kinds) for n in range(count)),
        (), (), (), len(groups) + 1, float(given["memory_limit"] - buffers),
    )  # fmt: skip
    found = solver_by_name("portfolio").solve(problem, Budget(), None)
    assert found.cost_s == pytest.approx(wanted["time"])
    assert found.peak_bytes + buffers <= wanted["memory"]
