"""Plans whose step counts exposed communication alone: one number, and the simulation agrees."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from costmodel.plan_overlap import overlapped
from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.step_in_order import in_turn_s
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import PlanFileError, plan_from_json, plan_to_json
from planner.repricing.other_machine import repriced
from planner.request import RequestError, SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster
from topology.cluster import Cluster

REQUESTS: dict[str, dict[str, Any]] = {
    "one batch": {"batch": 16384},
    "one batch for MindSpore": {"batch": 16384, "target": "mindspore"},
    "states in parts": {"global_batch": 16384, "pipeline": "off", "zero": "1"},
    "parameters in parts": {"global_batch": 16384, "pipeline": "off", "zero": "3"},
    "micro-batches": {"global_batch": 16384, "micro_batch": "4096", "pipeline": "off"},
    "stages": {"global_batch": 16384, "micro_batch": "2048", "pipeline": "2"},
    "chunks": {"global_batch": 16384, "micro_batch": "2048", "pipeline": "2", "interleave": "2"},
    "software": {"global_batch": 16384, "pipeline": "off", "zero": "3", "profile": "fsdp"},
    "software that hides activations": {"batch": 16384, "profile": "megatron-core"},
    "a slow host": {
        "global_batch": 1024,
        "pipeline": "off",
        "degrees": (("tp", 1),),
        "profile": "fsdp",
    },
    "software with stages": {
        "global_batch": 16384,
        "micro_batch": "2048",
        "pipeline": "2",
        "profile": "torchtitan",
    },
}


def network() -> OpGraph:
    """Layers of products whose parameters take about as long to send as to use."""
    graph = mlp(8, batch=16384, width=4096, hidden=8192)
    scopes = (f"layers.{number // 4}" for number in range(len(graph.ops)))
    return graph.with_ops(replace(op, scope=s) for op, s in zip(graph.ops, scopes, strict=True))


@cache
def plan_of(name: str, overlap: str = "auto") -> Plan:
    request = replace(SearchRequest(target="torch", overlap=overlap), **REQUESTS[name])
    return search(network(), named_cluster("dgx-h100", 16), request)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_step_is_what_its_causes_sum_to_and_hides_the_rest(name: str) -> None:
    plan = plan_of(name)
    estimate = plan.estimate
    assert math.fsum(estimate.time_by_cause.values()) == pytest.approx(estimate.step_time_s)
    assert estimate.hidden_s > 0
    assert in_turn_s(plan) > estimate.step_time_s
    assert all(0 <= item.hidden_s <= item.time_s * (1 + 1e-9) for item in plan.collectives)


@pytest.mark.parametrize("name", REQUESTS)
def test_what_hides_follows_from_the_plan_alone(name: str) -> None:
    plan = plan_of(name)
    again = overlapped(plan)
    pairs = zip(plan.collectives, again.collectives, strict=True)
    assert all(a.hidden_s == pytest.approx(b.hidden_s, abs=1e-12) for a, b in pairs)
    assert plan_from_json(plan_to_json(plan)) == plan


@pytest.mark.parametrize("name", REQUESTS)
def test_the_simulation_takes_as_long(name: str) -> None:
    plan = plan_of(name)
    assert simulate_plan(plan, Effects()).step_s == pytest.approx(
        plan.estimate.step_time_s, rel=0.1
    )
    in_turn = simulate_plan(plan, Effects.none())
    assert in_turn.step_s == pytest.approx(in_turn_s(plan), rel=1e-9)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_same_machine_gives_the_same_step(name: str) -> None:
    plan = plan_of(name)
    again = repriced(plan, Cluster.from_dict(plan.cluster))
    assert again.estimate.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=1e-9)
    assert again.estimate.hidden_s == pytest.approx(plan.estimate.hidden_s, rel=1e-9)


@pytest.mark.parametrize("name", ["one batch", "parameters in parts", "stages"])
def test_without_overlap_the_step_is_the_sum_and_no_plan_is_faster_with_it(name: str) -> None:
    plain, plan = plan_of(name, "none"), plan_of(name)
    assert plain.estimate.hidden_s == 0
    assert in_turn_s(plain) == plain.estimate.step_time_s
    assert plan.bound.bound_s <= plan.estimate.step_time_s * (1 + 1e-9)
    asked = replace(plain, request={**plain.request, "overlap": "auto"})
    same = repriced(asked, Cluster.from_dict(plain.cluster))
    assert plan.bound.bound_s <= same.estimate.step_time_s * (1 + 1e-9)
    assert plan.estimate.step_time_s <= same.estimate.step_time_s * 1.01


@pytest.mark.fast
def test_software_that_nobody_knows_is_refused_where_it_is_named() -> None:
    plan = plan_of("one batch")
    asked = replace(plan, request={**plan.request, "profile": "megatrn"})
    with pytest.raises(PlanFileError, match="no software profile 'megatrn'"):
        simulate_plan(asked, Effects())
    with pytest.raises(RequestError, match="no software profile 'megatrn'"):
        search(network(), named_cluster("dgx-h100", 16), SearchRequest(profile="megatrn"))
