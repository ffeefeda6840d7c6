"""What `--cost mindspore` makes of a search: what is minimised, what is said, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.mindspore_strategies import strategy_cost
from ir.mindspore_forms.readers import operators
from ir.plan_file import plan_from_json, plan_to_json
from planner.repricing.mindspore.checkpoint import lowered_again
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.search import search
from tests.builders import attention_block, mlp
from topology.catalogue import named_cluster

MACHINE = named_cluster("atlas-800t-a2", 8)
THEIRS = SearchRequest(cost="mindspore", dataset_strategy="full_batch")


def test_the_plan_says_what_was_minimised_and_prints_the_planners_own_time() -> None:
    graph = mlp(3, batch=256, width=1024, hidden=4096)
    plan, fastest = (search(graph, MACHINE, replace(THEIRS, cost=c)) for c in ("mindspore", "time"))
    assert plan.objective is not None
    assert plan.objective.cost == "mindspore"
    assert plan.objective.bound == plan.objective.value > 1e6
    assert plan.objective.proof == "optimal"
    assert plan.notes[0].startswith("minimised by --cost mindspore: ")
    assert plan.request["cost"] == "mindspore"
    assert plan.estimate.step_time_s > fastest.estimate.step_time_s
    assert plan.bound.bound_s == pytest.approx(fastest.estimate.step_time_s)
    assert sum(plan.estimate.time_by_cause.values()) == pytest.approx(plan.estimate.step_time_s)
    assert {b.name for b in plan.baselines} == {b.name for b in fastest.baselines}


def test_the_plan_has_the_cost_that_it_says() -> None:
    """Its operators are split as the minimum has it; only what that leaves open goes by time."""
    plan = search(mlp(3, batch=256, width=1024, hidden=4096), MACHINE, THEIRS)
    lowered = lowered_again(plan)
    assert lowered is not None
    assert plan.objective is not None
    strategy = {each.op.name: each.cuts for each in operators(plan) if each.form.name}
    strategy = {name: cuts for name, cuts in strategy.items() if not name.startswith("loss")}
    found = strategy_cost(plan.graph, lowered.setting, strategy)
    assert found.slices == pytest.approx(plan.objective.value, rel=1e-12)
    assert found.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=1e-9)


def test_a_search_for_the_least_time_says_nothing_of_other_costs() -> None:
    plan = search(mlp(2), MACHINE, SearchRequest())
    assert plan.objective is None
    assert "cost" not in plan.request
    assert '"objective"' not in plan_to_json(plan)


def test_the_objective_survives_the_file() -> None:
    plan = search(attention_block(), MACHINE, THEIRS)
    assert plan_from_json(plan_to_json(plan)) == plan


def test_a_plan_at_this_cost_keeps_to_the_memory() -> None:
    graph = mlp(4, batch=512, width=1024, hidden=4096)
    free = search(graph, MACHINE, THEIRS)
    limit = 0.7 * free.estimate.peak_memory_bytes
    tight = search(graph, MACHINE, replace(THEIRS, memory_limit_bytes=limit))
    assert tight.estimate.peak_memory_bytes <= limit
    assert tight.objective is not None
    assert free.objective is not None
    assert tight.objective.value >= free.objective.value


def test_nothing_that_fits_is_said_as_ever() -> None:
    graph = mlp(4, batch=512, width=1024, hidden=4096)
    with pytest.raises(InfeasibleError):
        search(graph, MACHINE, replace(THEIRS, memory_limit_bytes=24 * 2.0**20))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (SearchRequest(cost="mindspore", target="jax"), "not defined for strategies"),
        (SearchRequest(cost="money"), "no cost 'money'"),
    ],
)
def test_a_cost_that_is_not_defined_is_refused(request_: SearchRequest, message: str) -> None:
    with pytest.raises(RequestError, match=message) as error:
        search(mlp(2), MACHINE, request_)
    assert "\n  at:  --cost" in str(error.value)


def test_a_traced_training_step_is_refused() -> None:
    graph = mlp(2)
    traced = replace(graph, gradients={graph.parameters[0].name: graph.outputs[0]})
    with pytest.raises(RequestError, match="traced training step"):
        search(traced, MACHINE, THEIRS)
