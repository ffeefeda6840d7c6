"""A plan with stages at other sizes than its own."""

from __future__ import annotations

import math
from typing import Any

import pytest

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from ir.plan import Plan
from ir.plan_estimate import Bound
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.stage_plan import drafted, plan_of, space_of
from planner.request import RequestError, SearchRequest
from planner.whatif.shapes import shapes
from planner.whatif.sizes import at_size, priced_at, shape_at, staged_step_s
from planner.whatif.sweep import Count, Store, run
from planner.whatif.tasks import sweep_of
from planner.whatif.workbench import LocalEngine
from tests.builders import mlp
from tests.planner.pipeline.test_pipeline_search import machine
from tests.planner.whatif.sweeps import asked

WIDE = 2048
GRAPH = mlp(6, batch=8, width=WIDE, hidden=WIDE)
TIGHT = {"batch": 16_384, "pipeline": "2", "micro_batch": "4096"}
PATIENCE_S = 3600.0
"""A slow machine finds what a fast one finds."""
UNPROVEN = Bound(0.0, 0.0, "bounded", "")


def whole(batch: int = 16, **given: Any) -> tuple[Plan, PipelineSearch]:
    request = SearchRequest(global_batch=batch, time_limit_s=PATIENCE_S, **given)
    cluster = machine(4)
    return search_pipeline(GRAPH, cluster, request), PipelineSearch(GRAPH, cluster, request)


CASES: list[dict[str, Any]] = [
    {"pipeline": "2", "micro_batch": "4"},
    {"pipeline": "2", "micro_batch": "2", "interleave": "2", "target": "generic"},
    {"pipeline": "off", "micro_batch": "4", "zero": "2"},
    {"pipeline": "4", "micro_batch": "4", "offload": "on", "target": "generic"},
    {"pipeline": "2", "micro_batch": "8", "offload": "auto", "memory_limit_bytes": 80_000_000},
    {"pipeline": "2", "micro_batch": "8", "recompute": "full"},
    {"recompute": "selective", "memory_limit_bytes": 270_000_000, **TIGHT},
    {"recompute": "auto", "memory_limit_bytes": 231_500_000, **TIGHT},
]


@pytest.mark.parametrize("given", CASES)
def test_at_its_own_size_it_takes_and_holds_what_its_search_said(given: dict[str, Any]) -> None:
    plan, task = whole(**given)
    found = at_size(plan, task, plan.batch)
    draft = drafted(found)
    assert found.fits
    assert draft.step_s == pytest.approx(plan.estimate.step_time_s, rel=1e-12)
    assert draft.pipeline == plan.pipeline
    assert sum(t.host_bytes for t in draft.tensors) == sum(t.host_bytes for t in plan.tensors)
    told = plan_of(draft, task.request, (), space_of([found.groups[0].lowered]), UNPROVEN)
    assert told.estimate.peak_memory_bytes == plan.estimate.peak_memory_bytes
    assert (told.operators, told.recomputed) == (plan.operators, plan.recomputed)
    assert bool(plan.recomputed) == ("recompute" in given)


def test_at_another_batch_it_is_no_faster_than_the_bound_there_and_can_be_simulated() -> None:
    """Where each stage still has a micro-batch: a search looks at no others."""
    plan, task = whole(pipeline="2", micro_batch="4", interleave="1")
    for batch in (8, 32, 64):
        best, _ = whole(batch=batch, pipeline="2")
        found = at_size(plan, task, batch)
        assert drafted(found).step_s >= best.bound.bound_s * (1 - 1e-9)
        told = plan_of(
            drafted(found), task.request, (), space_of([found.groups[0].lowered]), UNPROVEN
        )
        alone = simulate_plan(told, Effects(overlap=False))
        assert alone.step_s <= told.estimate.step_time_s * (1 + 1e-9)
        assert told.pipeline.global_batch == batch


def test_more_micro_batches_take_longer_by_their_number() -> None:
    plan, task = whole(pipeline="off", micro_batch="4")
    one, two, five = (staged_step_s(plan, task, 4 * count) for count in (2, 3, 6))
    assert five - one == pytest.approx(4 * (two - one), rel=1e-9)


def test_micro_batches_on_the_way_need_memory() -> None:
    """At four micro-batches the first of four stages holds four of them, at one it holds one."""
    plan, task = whole(batch=512, pipeline="4", micro_batch="512", recompute="none")
    few, many = (at_size(plan, task, batch) for batch in (512, 4 * 512))
    assert many.peak_bytes > few.peak_bytes
    between = (few.peak_bytes + many.peak_bytes) / 2
    request = SearchRequest(global_batch=512, pipeline="4", memory_limit_bytes=int(between))
    tight = PipelineSearch(GRAPH, task.cluster, request)
    assert math.isfinite(staged_step_s(plan, tight, 512))
    assert math.isinf(staged_step_s(plan, tight, 4 * 512))


def test_a_micro_batch_divides_both_and_chunks_take_turns() -> None:
    plan, _ = whole(pipeline="2", micro_batch="4", interleave="2")
    shapes_at = [shape_at(plan.pipeline, batch) for batch in (24, 12, 8, 4, 2)]
    assert [(s.micro_batch, s.micro_batches) for s in shapes_at] == [
        (4, 6), (2, 6), (4, 2), (2, 2), (1, 2)
    ]  # fmt: skip
    with pytest.raises(RequestError, match="no whole rounds"):
        shape_at(plan.pipeline, 7)


def test_a_plan_that_was_not_cut_stays_whole() -> None:
    plan, task = whole(pipeline="off", micro_batch="16")
    assert plan.pipeline.is_single
    assert priced_at(plan, task.true_micro(16).graph) == pytest.approx(
        plan.estimate.step_time_s, rel=1e-12
    )
    larger, _ = whole(batch=64, pipeline="off", micro_batch="64")
    assert priced_at(plan, task.true_micro(64).graph) >= larger.bound.bound_s * (1 - 1e-9)
    sweep = sweep_of(asked("devices=4,batch=16,64", pipeline="off"))
    store = Store(None)
    points = run(sweep, LocalEngine(1), store)
    found = shapes(sweep, points, "uniform", store)
    assert all(math.isfinite(seconds) for row in found.step_s for seconds in row)


def test_a_mix_of_steps_that_may_be_cut_has_a_plan_for_all_and_a_few() -> None:
    what = asked("devices=8,batch=16,64,1024", pipeline="2")
    sweep, store = sweep_of(what), Store(None)
    store.wants_plans = True
    seen: list[Count] = []
    points = run(sweep, LocalEngine(1), store)
    found = shapes(sweep, points, "uniform", store, seen.append)
    assert (seen[-1].done, seen[-1].whole) == (6, 6)
    for size, point in enumerate(points):
        assert found.step_s[size][size] == point.result.step_s
        assert min(row[size] for row in found.step_s) >= point.result.bound_s * (1 - 1e-9)
    assert found.ideal_s <= found.best[-1].expected_s <= found.best[0].expected_s
    again = shapes(sweep, points, "uniform", Store(None))
    assert again == found
