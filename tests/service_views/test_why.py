"""A glance at an operator: everything else as planned."""

from __future__ import annotations

import math

import pytest

from planner.explain.glance import RIVALS
from planner.explain.plan_problem import problem_of
from planner.pipeline.pipeline_search import search_pipeline
from planner.request import RequestError, SearchRequest
from service.views.why import explanation_view, glance_view, why_view
from tests.builders import mlp
from tests.service_views.plans_of import plan_of
from topology.catalogue import named_cluster


@pytest.mark.parametrize("name", ["attention", "products"])
def test_a_glance_knows_the_plan_and_what_each_rival_would_add(name: str) -> None:
    plan = plan_of(name)
    case = problem_of(plan)
    problem = case.posed.problem
    for operator in plan.operators[:4]:
        view = glance_view(plan, operator.name)
        assert view["chosen"]["is_chosen"]
        assert view["chosen"]["fixed_delta_s"] == 0
        deltas = [rival["fixed_delta_s"] for rival in view["rivals"]]
        assert deltas == sorted(deltas)
        assert len(deltas) <= RIVALS
        number = case.node_of(operator.name)
        least = min(
            (
                problem.cost_s([*case.choice[:number], c, *case.choice[number + 1 :]])
                for c in range(problem.sizes[number])
                if c != case.choice[number]
            ),
            default=math.inf,
        )
        if deltas and least < 1e3:
            assert deltas[0] <= least - problem.cost_s(case.choice) + 1e-12


def test_the_whole_answer_is_about_the_same_choice() -> None:
    plan = plan_of("products")
    name = plan.operators[0].name
    glance, whole = glance_view(plan, name), why_view(plan, name)
    for key in ("cuts", "inputs", "outputs"):
        assert list(glance["chosen"][key]) == list(whole["chosen"][key])
    assert glance["chosen"]["local_s"] == pytest.approx(whole["chosen"]["local_s"])


def test_an_operator_that_is_not_there_is_named() -> None:
    with pytest.raises(RequestError, match="no operator 'nobody'"):
        glance_view(plan_of("products"), "nobody")


def test_a_plan_with_stages_answers_too() -> None:
    request = SearchRequest(global_batch=64, pipeline="2", interleave="1", micro_batch="16")
    plan = search_pipeline(
        mlp(3, width=1024, hidden=4096), named_cluster("atlas-800t-a2", 8), request
    )
    for operator in (plan.operators[0], plan.operators[-1]):
        glance, whole = glance_view(plan, operator.name), why_view(plan, operator.name)
        assert glance["name"] == whole["name"] == operator.name
        assert glance["chosen"]["local_s"] == pytest.approx(whole["chosen"]["local_s"])
        assert whole["place"]["stage"] == operator.stage
    assert len(explanation_view(plan)["stages"]) == 2
