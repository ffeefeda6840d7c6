"""Between the values found the plan is the best, beyond them another one is."""

from __future__ import annotations

import pytest

from ir.plan import Plan
from planner.explain import sensitivity
from planner.explain.plan_problem import problem_of
from planner.request import SearchRequest
from planner.search import search
from report.sensitivity import Sensitivity
from tests.builders import mlp
from topology.catalogue import named_machine
from topology.cluster import Cluster

CLUSTER = named_machine("atlas-800t-a2").cluster(16)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(mlp(2), CLUSTER, SearchRequest(target="torch"))


@pytest.fixture(scope="module")
def found(plan: Plan) -> Sensitivity:
    return sensitivity(plan)


def loss(plan: Plan, cluster: Cluster) -> float:
    """Seconds that the plan takes more on a machine than the best one on its mesh there."""
    case = problem_of(plan, cluster=cluster)
    return case.plan_answer.cost_s - case.posed.answer().cost_s


@pytest.mark.fast
def test_a_plan_turns_where_it_is_said(plan: Plan, found: Sensitivity) -> None:
    tiers = [each for each in found.ranges if each.quantity.startswith("bandwidth")]
    assert [each.quantity for each in tiers] == ["bandwidth of server", "bandwidth of card"]
    turns = 0
    for each in tiers:
        tier = each.quantity.removeprefix("bandwidth of ")
        for turn in (each.below, each.above):
            if turn is None:
                continue
            turns += 1
            still, moved = (
                loss(plan, CLUSTER.with_bandwidth(tier, value / each.value))
                for value in (turn.still, turn.value)
            )
            assert still <= 1e-6 * plan.estimate.step_time_s
            assert moved == pytest.approx(turn.gain_s, rel=1e-6)
            assert moved > 0
            assert abs(turn.value / turn.still - 1) < 0.02
    assert turns


@pytest.mark.fast
def test_without_a_turn_the_plan_holds_at_the_farthest_value(
    plan: Plan, found: Sensitivity
) -> None:
    for each in found.ranges:
        if each.above is None and each.quantity.startswith("bandwidth"):
            tier = each.quantity.removeprefix("bandwidth of ")
            cluster = CLUSTER.with_bandwidth(tier, each.highest / each.value)
            assert loss(plan, cluster) <= 1e-6 * plan.estimate.step_time_s


def test_memory_turns_at_what_the_plan_needs(plan: Plan, found: Sensitivity) -> None:
    memory = found.ranges[-1]
    assert memory.quantity == "memory"
    assert memory.below is not None
    assert memory.below.value == plan.estimate.peak_memory_bytes
    assert memory.above is None


def test_where_memory_binds_more_of_it_changes_the_plan() -> None:
    cluster = named_machine("atlas-800t-a2").cluster(16)
    free = search(mlp(1), cluster, SearchRequest())
    limit = free.estimate.peak_memory_bytes * 0.8
    plan = search(mlp(1), cluster, SearchRequest(memory_limit_bytes=limit))
    memory = sensitivity(plan).ranges[-1]
    assert memory.above is not None
    assert limit < memory.above.value <= free.estimate.peak_memory_bytes
    with_more = search(mlp(1), cluster, SearchRequest(memory_limit_bytes=memory.above.value))
    gain_s = plan.estimate.step_time_s - with_more.estimate.step_time_s
    assert gain_s > 0
    assert memory.above.gain_s == pytest.approx(gain_s, rel=1e-9)
