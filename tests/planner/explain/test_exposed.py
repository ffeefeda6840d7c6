"""Explanations count of a message what the step is longer for it; what hides stands beside it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

from ir.plan import Plan
from planner.explain import why
from planner.explain.plan_problem import problem_of
from planner.explain.terms import Terms, by_label
from planner.pipeline.pipeline_search import search_pipeline
from planner.search import search
from tests.service_views.plans_of import FAST, layers, plan_of
from topology.catalogue import named_cluster


@cache
def plan(name: str) -> Plan:
    if name == "micro-batches":
        request = replace(FAST, global_batch=1024, pipeline="off", micro_batch="256", zero="3")
        return search_pipeline(layers(6), named_cluster("atlas-800t-a2", 16), request)
    if name == "in turn":
        return search(layers(6), named_cluster("atlas-800t-a2", 16), replace(FAST, overlap="none"))
    return plan_of(name)


@pytest.mark.fast
@pytest.mark.parametrize("name", ["attention", "layers", "micro-batches", "in turn"])
def test_terms_of_a_plan_are_its_causes(name: str) -> None:
    of = plan(name)
    case = problem_of(of)
    terms = Terms(case.lowered).of_choice(case.choice)
    step_s = of.estimate.step_time_s
    assert math.fsum(term.exposed_s for term in terms) == pytest.approx(step_s, rel=1e-9)
    causes = {cause: s for cause, s in by_label(terms).items() if s > 1e-12 * step_s}
    assert causes == {
        cause: pytest.approx(s, rel=1e-6, abs=1e-12)
        for cause, s in of.estimate.time_by_cause.items()
    }
    hidden_s = math.fsum(term.hidden_s for term in terms)
    assert hidden_s == pytest.approx(of.estimate.hidden_s, rel=1e-9)
    assert (hidden_s > 0) == (name != "in turn")


@pytest.mark.parametrize("name", ["layers", "in turn"])
def test_what_a_candidate_adds_is_told_by_cause_with_overlap(name: str) -> None:
    of = plan(name)
    seen = 0.0
    for operator in of.operators[1:4]:
        found = why(of, operator.name)
        for each in (found.chosen, *found.rivals):
            parts = math.fsum(part.time_s for part in each.parts)
            assert parts == pytest.approx(each.local_s, rel=1e-9)
            seen += math.fsum(part.hidden_s for part in each.parts)
        for rival in found.rivals:
            if rival.delta_s is not None:
                total = math.fsum(rival.delta_by_cause.values())
                assert total == pytest.approx(rival.delta_s, rel=1e-6, abs=1e-12)
    assert (seen > 0) == (name == "layers")
