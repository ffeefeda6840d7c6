"""A step of one batch decides ZeRO too: its plan says where optimizer state rests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from executors.mindspore.messages import promised
from executors.reference import given_tensors
from executors.values import numbers
from executors.verdict import Verdict, verify
from exporters import jax, torch
from exporters.mindspore.checkpoint import strategy_checkpoint
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from ir.plan_slicing import plan_slicing
from planner.repricing.planned_choice import lowered_plan, priced
from planner.request import SearchRequest
from planner.search import search
from tests.builders import attention_block, mlp
from tests.executors.drawn_plans import drawn_plan
from topology.catalogue import named_cluster
from topology.cluster import Cluster

CLUSTER = named_cluster("dgx-h100", 16)
GRAPH = mlp(2, batch=65536, width=2048, hidden=8192)
TARGETS = ("generic", "torch", "mindspore")


@pytest.fixture(scope="module", params=TARGETS)
def plan(request: pytest.FixtureRequest) -> Plan:
    """A batch whose optimizer state is in parts."""
    return search(GRAPH, CLUSTER, SearchRequest(target=request.param))


def drawn(target: str, seed: int) -> Plan:
    asked = SearchRequest(target=target, training=True)
    return drawn_plan(attention_block(8, 8, 8, 8), 8, asked, seed, zero="1")


def verdict_on(plan: Plan) -> Verdict:
    return verify(plan, numbers(plan.graph, given_tensors(plan), {}))


def levels(plan: Plan) -> set[int]:
    return {tensor.zero for tensor in plan.parameters}


def test_it_is_decided_with_the_layouts_and_is_one_batch(plan: Plan) -> None:
    assert levels(plan) & {1, 2}
    assert plan.pipeline.is_single
    assert plan.bound.bound_s <= plan.estimate.step_time_s


@pytest.mark.parametrize("batch", [16, 64, 256])
@pytest.mark.parametrize("target", TARGETS)
def test_it_is_never_slower_than_a_step_that_may_be_cut(target: str, batch: int) -> None:
    """Both leave one per cent on the table at most, where trying more promises no more."""
    graphs = (mlp(2, batch=batch, width=512, hidden=512), attention_block(batch, 8, 64, 8))
    for graph in graphs:
        asked = SearchRequest(target=target)
        plain = search(graph, CLUSTER, asked).estimate.step_time_s
        for pipeline in ("off", "auto"):
            cut = replace(asked, global_batch=batch, pipeline=pipeline)
            assert plain <= search(graph, CLUSTER, cut).estimate.step_time_s * 1.0101


def test_the_plan_survives_its_file_and_costs_the_same_again(plan: Plan) -> None:
    again = plan_from_json(plan_to_json(plan))
    assert again == plan
    machine = Cluster.from_dict(again.cluster)
    found = priced(again, machine, lowered_plan(again, machine))
    assert found.tensors == plan.tensors
    assert found.estimate.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=1e-9)


def test_a_plan_without_such_states_says_nothing_of_them_in_its_file() -> None:
    text = plan_to_json(search(GRAPH, CLUSTER, SearchRequest(training=False)))
    assert '"zero"' not in text
    assert '"states"' not in text


@pytest.mark.parametrize("target", ["generic", "mindspore"])
def test_the_simulation_without_overlap_is_the_sum(target: str) -> None:
    made = drawn(target, 0)
    machine = Cluster.from_dict(made.cluster)
    plan = priced(made, machine, lowered_plan(made, machine))
    simulated = simulate_plan(plan, Effects.none()).step_s
    assert simulated == pytest.approx(plan.estimate.step_time_s, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", ["generic", "mindspore"])
def test_it_computes_what_the_whole_model_does_with_the_messages_listed(
    target: str, seed: int
) -> None:
    plan = drawn(target, seed)
    assert 1 in levels(plan)
    verdict = verdict_on(plan)
    assert not verdict.mismatches
    assert verdict.passed


def test_mindspore_shares_the_weights_with_their_states() -> None:
    plan = search(GRAPH, CLUSTER, SearchRequest(target="mindspore"))
    shared = {t.name for t in plan.parameters if t.states is not None}
    layouts = {each.name: each for each in strategy_checkpoint(plan).layouts}
    assert shared
    for name in shared:
        assert layouts[name].opt_weight_shard_size == CLUSTER.devices
        (grid,) = plan_slicing(plan).grids[name]
        assert any(grid.dims)
    gathers = [m for m in promised(plan) if m.kind == "all_gather"]
    assert len(gathers) >= len(shared)


def test_exports_say_where_states_rest() -> None:
    plan = search(GRAPH, CLUSTER, SearchRequest(target="torch"))
    shared = {t.name for t in plan.parameters if t.states is not None}
    for form in (jax, torch):
        sharding = form.from_json(form.to_json(plan))
        assert {p.name for p in sharding.parameters if p.states is not None} == shared
    text = jax.to_python(plan)
    assert "MICRO_BATCHES = 1" in text
    assert text.count("STATES = {") == 1
