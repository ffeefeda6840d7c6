"""Stages beside a batch that fits as one: looked at where a bound promises that they are faster."""

from __future__ import annotations

from functools import cache

import pytest

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from executors.rescaling import rescaled
from executors.shrink import shrunk
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from planner import explain
from planner.difference import difference
from planner.pipeline.pipeline_search import STAGES_GAIN, STAGES_PROMISE
from planner.repricing.other_circumstances import Factors
from planner.request import NEEDED, PROMISING, SearchRequest
from planner.requests.options.searches import SearchOptions
from planner.requests.plan_json import found
from planner.requests.search_request import search_request
from planner.requests.searches import question
from planner.requests.simulations import answer
from planner.requests.sources import ModelSource
from planner.search import search
from planner.whatif.axes import Place, of_place, parse_axes
from planner.whatif.tasks import Asked, sweep_of, task_at
from planner.whatif.workbench import Workbench, result_of
from service.views.summary import summary_view
from service.views.whatif import whatif_view
from tests.builders import mlp
from tests.executors.test_pipeline import verdict_on
from tests.planner.whatif.sweeps import asked
from tests.service_views.chinese import without_chinese
from topology.catalogue import named_cluster

BATCH = 8192
SLOW, USUAL = 0.05, 1.0
POINT = Place((("devices", 2), ("batch", 64)))
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


@pytest.mark.parametrize("pipeline", [None, NEEDED, PROMISING, "off", "auto", "2"])
def test_a_search_and_a_sweep_look_at_the_same_stages(pipeline: str | None) -> None:
    options = SearchOptions(batch=64, devices=2, pipeline=pipeline)
    request = search_request(options)
    is_cut = pipeline in {"auto", "2"}
    assert (request.batch, request.global_batch) == ((None, 64) if is_cut else (64, None))
    assert request.pipeline == (pipeline or PROMISING)
    task = task_at(asked("devices=2,batch=64", pipeline=pipeline), POINT)
    assert task is not None
    assert task[0].request.to_dict() == request.to_dict()
    assert task[0].request.pipeline == request.pipeline


def test_results_of_a_sweep_are_kept_apart_by_what_stages_it_looks_at() -> None:
    keys = set()
    for pipeline in (None, PROMISING, NEEDED, "off"):
        task = task_at(asked("devices=2,batch=64", pipeline=pipeline), POINT)
        assert task is not None
        keys.add(task[0].key)
    assert len(keys) == 3


@pytest.mark.parametrize("bandwidth", [SLOW, USUAL])
def test_a_point_of_a_sweep_has_the_stages_of_a_search(bandwidth: float) -> None:
    model = ModelSource("mlp", lambda _: mlp(8, BATCH, 2048, 8192), lambda *_: {})
    options = SearchOptions(cluster="dgx-h100", devices=16, target="torch", batch=BATCH)
    axes = parse_axes(f"devices=16,batch={BATCH},bandwidth={bandwidth}")
    (task,) = sweep_of(Asked(model, options, axes, {})).tasks
    swept = Workbench({task.model: model.graph({})}, keep_plans=False).plan(task)
    machine = of_place(named_cluster("dgx-h100", 16), Place((("bandwidth", bandwidth),)))
    single = search(model.graph({}), machine, question(model, options).request)
    assert plan_to_json(task.machine.noted(single)) == plan_to_json(swept)
    assert swept.pipeline.is_single is (bandwidth == USUAL)


@pytest.mark.parametrize("target", ["torch", "mindspore"])
def test_all_tell_the_same_step_of_promising_stages(target: str) -> None:
    plan = plan_of(target, PROMISING, SLOW)
    told = {
        "search": found(plan)["step_time_s"],
        "summary": summary_view(plan)["step_time_s"],
        "sweep": result_of(plan).step_s,
        "simulate": answer(simulate_plan(plan, Effects()))["estimate_s"],
        "diff": difference(plan, plan).step_time_s.first,
        "operator": explain.why(plan, plan.operators[0].name, rivals=1).step_time_s,
        "what if": whatif_view(plan, Factors())["before"]["step_s"],
    }
    assert told == {who: pytest.approx(plan.estimate.step_time_s, rel=1e-9) for who in told}
