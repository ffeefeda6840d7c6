"""Seconds of communication by the links that hold it up, as a what-if finds them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from ir.plan import Plan
from planner.pipeline.pipeline_search import search_pipeline
from planner.repricing.binding_tiers import tier_times
from planner.repricing.other_machine import repriced
from tests.builders import mlp
from tests.service_views.plans_of import FAST, plan_of
from topology.catalogue import named_cluster
from topology.cluster import Cluster

pytestmark = pytest.mark.fast
PLANS = ("attention", "products", "layers", "staged")


@cache
def plan(name: str) -> Plan:
    if name != "staged":
        return plan_of(name)
    request = replace(FAST, global_batch=256, pipeline="2", micro_batch="64")
    return search_pipeline(mlp(4), named_cluster("atlas-800t-a2", 16), request)


def communication(by_cause: dict[str, float]) -> float:
    return sum(seconds for cause, seconds in by_cause.items() if " in " in cause)


@pytest.mark.parametrize("name", PLANS)
def test_tiers_sum_to_the_communication_of_the_step(name: str) -> None:
    found, estimate = tier_times(plan(name)), plan(name).estimate
    exposed = sum(time.exposed_s for time in found.values())
    hidden = sum(time.hidden_s for time in found.values())
    assert exposed == pytest.approx(communication(dict(estimate.time_by_cause)))
    assert hidden == pytest.approx(sum(estimate.hidden_by_cause.values()))
    assert list(found) == [tier.name for tier in Cluster.from_dict(plan(name).cluster).tiers]


@pytest.mark.parametrize("name", PLANS[:-1])
def test_the_tier_with_most_of_it_is_that_whose_links_are_worth_buying(name: str) -> None:
    found, cluster = tier_times(plan(name)), Cluster.from_dict(plan(name).cluster)
    saved = {
        tier: plan(name).estimate.step_time_s
        - repriced(plan(name), cluster.with_bandwidth(tier, 2.0)).estimate.step_time_s
        for tier in found
    }
    for tier, time in found.items():
        assert saved[tier] <= (time.exposed_s + time.hidden_s) * (1 + 1e-6) + 1e-12
    if max(saved.values()) > 1e-3 * plan(name).estimate.step_time_s:
        most = max(found, key=lambda tier: found[tier].exposed_s)
        assert saved[most] == max(saved.values())


def test_a_collective_over_servers_is_held_up_by_slower_links_inside_them() -> None:
    cluster = named_cluster("atlas-800t-a2", 16)
    slow = replace(plan("products"), cluster=cluster.with_bandwidth("card", 1e-3).to_dict())
    wide = tuple(c for c in slow.collectives if c.tier == "server" and c.group_size == 16)
    assert wide
    found = tier_times(replace(slow, collectives=wide))
    assert found["card"].exposed_s > 0.9 * sum(item.exposed_s for item in wide)
