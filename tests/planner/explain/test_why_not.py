"""Another way costs the difference of two independent searches, split without remainder."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ir.graph import OpGraph
from ir.plan import Plan
from planner.explain import why, why_not, why_not_search
from planner.explain.plan_request import request_of
from planner.request import RequestError, SearchRequest
from planner.requests.option_texts import pins
from planner.search import search
from tests.builders import attention_block, mlp
from topology.catalogue import named_machine
from topology.cluster import Cluster

ASKED = ("tp=8", "tp=2,dp=8", "dp=16", "zero3", "tp=1,zero3")


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return named_machine("atlas-800t-a2").cluster(16)


@pytest.fixture(scope="module")
def graph() -> OpGraph:
    return mlp(3)


@pytest.fixture(scope="module", params=["mindspore", "torch"])
def request_(request: pytest.FixtureRequest) -> SearchRequest:
    return SearchRequest(target=request.param)


@pytest.fixture(scope="module")
def plan(graph: OpGraph, cluster: Cluster, request_: SearchRequest) -> Plan:
    return search(graph, cluster, request_)


@pytest.mark.parametrize("asked", ASKED)
def test_the_difference_is_that_of_two_searches(
    graph: OpGraph, cluster: Cluster, request_: SearchRequest, plan: Plan, asked: str
) -> None:
    found = why_not(plan, asked)
    degrees = tuple((n, int(v or 1)) for n, _, v in (p.partition("=") for p in asked.split(",")))
    other = search(graph, cluster, replace(request_, degrees=degrees))
    delta = other.estimate.step_time_s - plan.estimate.step_time_s
    assert found.delta_s == pytest.approx(delta, rel=1e-12, abs=1e-18)
    assert delta >= 0
    assert math.fsum(each.delta for each in found.time) == pytest.approx(delta, rel=1e-9, abs=1e-15)
    memory = other.estimate.peak_memory_bytes - plan.estimate.peak_memory_bytes
    assert math.fsum(each.delta for each in found.memory) == pytest.approx(memory, abs=1e-3)
    assert found.verdict == ("slower" if delta > 0 else "equal")


def test_a_pin_is_a_restriction_too(
    graph: OpGraph, cluster: Cluster, request_: SearchRequest, plan: Plan
) -> None:
    cuts = ((1, 8), (8, 1))
    found = why_not(plan, "op_matmul_0=((1,8),(8,1))")
    other = search(graph, cluster, replace(request_, pins=(("op_matmul_0", cuts),)))
    delta = other.estimate.step_time_s - plan.estimate.step_time_s
    assert found.delta_s == pytest.approx(delta, rel=1e-12, abs=1e-18)


def test_the_command_that_has_the_model_says_the_same(
    graph: OpGraph, cluster: Cluster, request_: SearchRequest, plan: Plan
) -> None:
    again = why_not_search(graph, cluster, request_, plan, "tp=2,dp=8")
    assert again.to_dict() == why_not(plan, "tp=2,dp=8").to_dict()


def test_a_plan_says_what_it_was_asked(
    cluster: Cluster, graph: OpGraph, request_: SearchRequest
) -> None:
    asked = replace(
        request_,
        pins=(("op_matmul_0", ((2, 1), (1, 8))),),
        soft_pins=(("op_matmul_2", ((2, 8), (8, 1)), 1e-3),),
        scoped_degrees=(("op_relu_1", (("dp", 2),)),),
    )
    assert request_of(search(graph, cluster, asked)) == asked


def test_a_candidate_costs_what_a_search_with_a_pin_finds_where_memory_binds(
    graph: OpGraph, cluster: Cluster, request_: SearchRequest, plan: Plan
) -> None:
    tight = replace(request_, memory_limit_bytes=plan.estimate.peak_memory_bytes * 0.85)
    chosen = search(graph, cluster, tight)
    assert chosen.estimate.step_time_s > plan.estimate.step_time_s
    for rival in why(chosen, "op_matmul_0", rivals=2).rivals:
        pinned = replace(tight, pins=pins([f"op_matmul_0={rival.cuts}"]))
        other = search(graph, cluster, pinned)
        delta = other.estimate.step_time_s - chosen.estimate.step_time_s
        assert other.mesh == chosen.mesh
        assert rival.delta_s == pytest.approx(delta, rel=1e-12, abs=1e-18)
    other = search(graph, cluster, replace(tight, degrees=(("tp", 8),)))
    delta = other.estimate.step_time_s - chosen.estimate.step_time_s
    assert why_not(chosen, "tp=8").delta_s == pytest.approx(delta, rel=1e-12, abs=1e-18)


@pytest.mark.fast
def test_what_cannot_be_says_so_and_names_the_fault(plan: Plan) -> None:
    assert why_not(plan, "dp=3").verdict == "impossible"
    with pytest.raises(RequestError, match="no degree 'xp'"):
        why_not(plan, "xp=2")
    assert "no sequence of tokens" in why_not(plan, "cp=2").text
    with pytest.raises(RequestError, match="--pipeline auto"):
        why_not(plan, "pp=2")


def test_memory_may_forbid_it(cluster: Cluster) -> None:
    graph = mlp(3, batch=64, width=1024, hidden=4096)
    request = SearchRequest(target="mindspore", overlap="none")
    free = search(graph, cluster, request)
    limit = free.estimate.peak_memory_bytes * 1.01
    plan = search(graph, cluster, replace(request, memory_limit_bytes=limit))
    found = why_not(plan, "dp=16,tp=1")
    assert found.verdict == "does not fit"
    assert found.delta_s is None
    assert (found.restricted_peak_bytes or 0) > limit


def test_the_context_can_be_asked_for() -> None:
    cluster = named_machine("atlas-800t-a2").cluster(8)
    request = SearchRequest(target="torch")
    plan = search(attention_block(), cluster, request)
    found = why_not(plan, "dp=2,cp=4")
    held = replace(request, degrees=(("dp", 2),), context_parallel="4")
    other = search(attention_block(), cluster, held)
    assert found.restricted_s == other.estimate.step_time_s
    assert found.delta_s is not None
    assert found.delta_s > 0


def test_degrees_of_an_attention_block_split_every_product() -> None:
    cluster = named_machine("atlas-800t-a2").cluster(16)
    plan = search(
        attention_block(), cluster, SearchRequest(target="jax", degrees=(("tp", 8), ("dp", 2)))
    )
    sizes = {name: size for name, size, _ in plan.mesh}
    weights = {t.name for t in plan.parameters}
    ops = {op.name: op for op in plan.graph.ops}
    products = [op for op in plan.operators if op.kind == "MatMul"]
    assert len(products) == 5
    for op in products:
        place = next(i for i, name in enumerate(ops[op.name].inputs) if name in weights)
        layout, rows = op.inputs[place], op.inputs[0]
        assert layout is not None
        assert rows is not None
        assert math.prod(sizes[axis] for dim in layout.dims for axis in dim) == 8
        assert math.prod(sizes[axis] for axis in rows.dims[0]) == 2
