"""A step as MindSpore runs it from the strategy checkpoint alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ir.graph import OpGraph, Role
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from planner.repricing.mindspore.checkpoint import (
    checkpoint_only_choice,
    checkpoint_only_s,
    lowered_again,
)
from planner.request import SearchRequest
from planner.search import search
from tests.builders import attention_block, mlp
from tests.exporters.small_networks import image_model, language_model, tied, wide_perceptron
from topology.catalogue import named_cluster


def planned(graph: OpGraph, devices: int = 16, **request: object) -> Plan:
    wanted = SearchRequest(dtype="fp16", time_limit_s=None, **request)  # type: ignore[arg-type]
    return search(graph, named_cluster("atlas-800t-a2", devices), wanted)


NETWORKS = [attention_block, image_model, language_model, tied, wide_perceptron]
ANY_NETWORK = pytest.mark.parametrize("make", NETWORKS, ids=lambda f: f.__name__)


@ANY_NETWORK
@pytest.mark.parametrize("training", [True, False])
def test_it_is_a_point_of_the_plans_own_space(make: Callable[[], OpGraph], training: bool) -> None:
    plan = planned(make(), training=training)
    alone_s = checkpoint_only_s(plan)
    assert alone_s is not None
    assert alone_s >= plan.bound.bound_s * (1 - 1e-9)


@ANY_NETWORK
def test_what_the_checkpoint_carries_is_as_planned_and_the_rest_by_batch(
    make: Callable[[], OpGraph],
) -> None:
    plan = planned(make())
    lowered = lowered_again(plan)
    assert lowered is not None
    choice = checkpoint_only_choice(plan, lowered)
    assert choice is not None
    ops = {op.name: op for op in plan.graph.ops}
    splits = {o.name: tuple(f for _, f in o.split) for o in plan.operators}
    for node, candidate in zip(lowered.nodes, choice, strict=True):
        if node.candidates is not None:
            made = node.assignment(candidate)
            roles = {plan.graph.tensors[n].role for n in ops[node.name].inputs if n}
            if Role.PARAMETER in roles:
                assert made == splits[node.name]
            elif ops[node.name].kind in {"Relu", "Gelu", "Loss"}:
                assert len(set(made)) == 1


def test_a_data_parallel_plan_needs_nothing_else() -> None:
    plan = planned(mlp(3, batch=4096), devices=8)
    assert all({f for _, f in o.split} == {0} for o in plan.operators if o.kind != "Loss")
    assert checkpoint_only_s(plan) == pytest.approx(plan.estimate.step_time_s)


def test_a_plan_that_cuts_columns_is_slower_from_the_checkpoint_alone() -> None:
    plan = planned(mlp(3, batch=64, width=1024, hidden=8192))
    assert any(2 in [f for _, f in o.split] for o in plan.operators if o.kind == "MatMul")
    alone_s = checkpoint_only_s(plan)
    assert alone_s is not None
    assert alone_s > plan.estimate.step_time_s * 1.01


def test_the_file_of_the_plan_is_enough() -> None:
    plan = planned(attention_block())
    assert checkpoint_only_s(plan_from_json(plan_to_json(plan))) == checkpoint_only_s(plan)


def test_plans_for_other_targets_are_not_run_from_a_checkpoint() -> None:
    assert checkpoint_only_s(planned(wide_perceptron(), target="generic")) is None
