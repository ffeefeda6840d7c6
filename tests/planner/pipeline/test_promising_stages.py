"""Stages beside a batch that fits as one: looked at where a bound promises that they are faster."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from executors.rescaling import rescaled
from executors.shrink import shrunk
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from planner.pipeline.pipeline_search import STAGES_GAIN, STAGES_PROMISE
from planner.request import NEEDED, PROMISING, SearchRequest
from planner.requests.options.searches import SearchOptions
from planner.requests.search_request import search_request
from planner.search import search
from planner.whatif.axes import Place
from planner.whatif.tasks import search_options, task_at
from tests.builders import mlp
from tests.executors.test_pipeline import verdict_on
from tests.planner.whatif.sweeps import asked
from tests.service_views.chinese import without_chinese
from topology.catalogue import named_cluster

BATCH = 8192
SLOW, USUAL = 0.05, 1.0
TARGETS = ("torch", "mindspore", "generic", "jax")


@cache
def plan_of(target: str, pipeline: str, bandwidth: float) -> Plan:
    """Of two servers whose links are as fast as usual, or hold up every message between them."""
    machine = named_cluster("dgx-h100", 16).with_bandwidth("server", bandwidth)
    request = SearchRequest(target=target, pipeline=pipeline, batch=BATCH, time_limit_s=None)
    return search(mlp(8, BATCH, 2048, 8192), machine, request)


@pytest.mark.parametrize("bandwidth", [SLOW, USUAL])
@pytest.mark.parametrize("target", TARGETS)
def test_a_plan_has_promising_stages_only_where_they_are_faster(
    target: str, bandwidth: float
) -> None:
    alone, found = (plan_of(target, pipeline, bandwidth) for pipeline in (NEEDED, PROMISING))
    assert alone.pipeline.is_single
    step_s, alone_s = found.estimate.step_time_s, alone.estimate.step_time_s
    if found.pipeline.is_single:
        assert plan_to_json(found) == plan_to_json(alone)
        return
    assert target != "jax"
    assert step_s < alone_s * (1 - STAGES_GAIN)
    assert found.bound.bound_s <= min(step_s, alone.bound.bound_s, alone_s * (1 - STAGES_PROMISE))
    assert found.batch == BATCH


@pytest.mark.parametrize("target", ["torch", "mindspore"])
def test_stages_spare_slow_links_and_have_micro_batches_enough(target: str) -> None:
    plan, alone = (plan_of(target, pipeline, SLOW) for pipeline in (PROMISING, NEEDED))
    assert len(plan.pipeline.stages) > 1
    assert plan.pipeline.micro_batches >= plan.pipeline.parts
    (said,) = (note for note in plan.notes if note.startswith("pipeline stages are faster"))
    assert not without_chinese(said)
    assert plan_from_json(plan_to_json(plan)) == plan
    simulated = [simulate_plan(each, Effects()).step_s for each in (plan, alone)]
    assert simulated[0] < simulated[1]


@pytest.mark.parametrize("target", ["torch", "mindspore"])
def test_promising_stages_compute_what_the_model_computes(target: str) -> None:
    plan = plan_of(target, PROMISING, SLOW)
    assert not plan.pipeline.is_single
    assert verdict_on(rescaled(shrunk(plan).plan, plan)).passed


def test_jax_runs_a_plan_as_one_program() -> None:
    assert plan_of("jax", PROMISING, SLOW).pipeline.is_single


def test_a_search_looks_at_promising_stages_and_a_sweep_at_needed_ones() -> None:
    batch = SearchOptions(batch=64)
    assert search_request(batch).pipeline == PROMISING
    assert search_options(asked(batch=64), Place(())).pipeline == NEEDED
    for pipeline in (NEEDED, PROMISING, "off"):
        held = replace(batch, pipeline=pipeline)
        assert search_request(held).pipeline == pipeline
        assert search_request(held).batch == 64
        assert search_options(asked(batch=64, pipeline=pipeline), Place(())).pipeline == pipeline


def test_results_of_a_sweep_are_kept_apart_by_what_stages_it_looks_at() -> None:
    keys = set()
    for pipeline in (None, NEEDED, PROMISING):
        what = asked("devices=2", pipeline=pipeline)
        task = task_at(what, Place((("devices", 2),)))
        assert task is not None
        keys.add(task[0].key)
    assert len(keys) == 2
