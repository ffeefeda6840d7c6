"""One plan has one step, one peak and one exposed time, whoever tells them (law 9)."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import pytest

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.result import Simulation
from ir.plan import Plan
from planner import explain
from planner.difference import difference
from planner.pipeline.pipeline_search import search_pipeline
from planner.repricing.other_circumstances import Factors
from planner.requests.plan_json import found
from planner.requests.simulations import answer
from planner.search import search
from planner.whatif.workbench import result_of
from report.plan import PlanReport
from report.traffic import group_traffic
from service.facts import plan_facts
from service.views.cluster import cluster_view
from service.views.memory import memory_view
from service.views.summary import summary_view
from service.views.table import table_view
from service.views.timeline import timeline_view
from service.views.whatif import whatif_view
from service.views.why import explanation_view, glance_view
from tests.builders import attention_block, mlp
from tests.service_views.plans_of import FAST, plan_of
from topology.catalogue import named_cluster

PLANS = ("attention", "staged", "layers", "sharded")


@cache
def plan(name: str) -> Plan:
    """One stage or two, or one whose parameters are gathered ahead for want of memory."""
    if name == "sharded":
        request, cluster = replace(FAST, target="torch"), named_cluster("atlas-800t-a2", 8)
        free = search(attention_block(batch=64), cluster, request).estimate.peak_memory_bytes
        limited = replace(request, memory_limit_bytes=0.35 * free)
        return search(attention_block(batch=64), cluster, limited)
    if name != "staged":
        return plan_of(name)
    request = replace(FAST, global_batch=256, pipeline="2", micro_batch="64")
    return search_pipeline(mlp(4), named_cluster("atlas-800t-a2", 8), request)


@cache
def explained(name: str) -> dict[str, Any]:
    return explanation_view(plan(name))


@cache
def unchanged(name: str) -> dict[str, Any]:
    """What changes where nothing does."""
    return whatif_view(plan(name), Factors())


@cache
def simulation(name: str) -> Simulation:
    return simulate_plan(plan(name), Effects())


def test_plans_hide_something() -> None:
    assert all(plan(name).estimate.hidden_s > 0 for name in ("attention", "layers"))


@pytest.mark.fast
@pytest.mark.parametrize("name", PLANS)
def test_all_tell_the_same_step(name: str) -> None:
    of = plan(name)
    what_if, simulated = unchanged(name), answer(simulation(name))
    told = {
        "search": found(of)["step_time_s"],
        "summary": summary_view(of)["step_time_s"],
        "causes": math.fsum(summary_view(of)["time_by_cause"].values()),
        "what if": what_if["before"]["step_s"],
        "what if, unchanged": what_if["after"]["step_s"],
        "parts of what if": math.fsum(
            what_if["before"][key] for key in ("computing_s", "exposed_s", "waiting_s")
        ),
        "timeline": timeline_view(of)["estimate_s"],
        "simulate": simulated["estimate_s"],
        "sweep": result_of(of).step_s,
        "diff": difference(of, of).step_time_s.first,
        "explanation": explained(name)["step_time_s"],
        "operator": explain.why(of, of.operators[0].name, rivals=1).step_time_s,
        "glance": glance_view(of, of.operators[0].name)["step_time_s"],
    }
    assert told == {who: pytest.approx(of.estimate.step_time_s, rel=1e-9) for who in told}
    each = of.batch / of.estimate.step_time_s
    speeds = [found(of)["samples_per_s"], what_if["before"]["samples_per_s"]]
    assert speeds == pytest.approx([each, each])
    sweep = result_of(of)
    assert sweep.utilisation == found(of)["model_flops_utilisation"]


@pytest.mark.fast
@pytest.mark.parametrize("name", PLANS)
def test_all_tell_the_same_peak(name: str) -> None:
    of = plan(name)
    view, after, simulated = memory_view(of), unchanged(name)["after"], simulation(name)
    told = {
        "search": found(of)["peak_memory_bytes"],
        "summary": summary_view(of)["peak_memory_bytes"],
        "memory": view["peak_bytes"],
        "what if": unchanged(name)["before"]["peak_bytes"],
        "what if, unchanged": after["peak_bytes"],
        "sweep": result_of(of).peak_bytes,
        "explanation": explained(name)["memory"]["peak_bytes"],
        "simulate": simulated.peak_memory_bytes,
        "job": plan_facts(of, "", None)["peak_memory_bytes"],
    }
    assert told == {who: pytest.approx(of.estimate.peak_memory_bytes) for who in told}
    limits = {
        "search": found(of)["memory_limit_bytes"],
        "summary": summary_view(of)["memory_limit_bytes"],
        "memory": view["limit_bytes"],
        "what if": after["limit_bytes"],
        "explanation": explained(name)["memory"]["limit_bytes"],
    }
    assert limits == dict.fromkeys(limits, of.estimate.memory_limit_bytes)
    assert after["fits"]
    assert simulated.fits


@pytest.mark.fast
@pytest.mark.parametrize("name", PLANS)
def test_all_tell_the_same_exposed_time(name: str) -> None:
    of = plan(name)
    groups, tiers = map(asdict, group_traffic(of)), cluster_view(of)["tiers"]
    moved = [asdict(row) for row in PlanReport(of).time if " in " in row.cause]
    exposed = unchanged(name)["before"]["exposed_s"]
    hidden = of.estimate.hidden_s
    for rows in (list(groups), tiers, moved):
        own = "time_s" if rows is tiers else "exposed_s"
        assert math.fsum(row[own] for row in rows) == pytest.approx(exposed)
        assert math.fsum(row["hidden_s"] for row in rows) == pytest.approx(hidden)
    columns = {heading: own for heading, _, own in table_view(of)["operators"]["columns"]}
    operators = columns["exposed"]
    inside = math.fsum(c.exposed_s for c in of.collectives)
    assert math.fsum(operators) == pytest.approx(inside, abs=1e-9 * len(operators))
