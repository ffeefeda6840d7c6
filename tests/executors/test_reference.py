"""Plans run on virtual devices: numbers and messages are those that the plan promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from executors.reference import given_tensors
from executors.values import numbers
from executors.verdict import Verdict, verify
from ir.graph import OpGraph
from ir.plan import Plan
from planner.request import SearchRequest
from tests.builders import attention_block, mlp
from tests.cases import nets
from tests.executors.drawn_plans import drawn_plan

NETS: dict[str, Callable[[], OpGraph]] = {
    "perceptron": lambda: mlp(2, 16, 32, 64),
    "attention": lambda: attention_block(4, 8, 4, 8),
    "encoder": lambda: nets.bert(8, 8, 16, 32, 1, 4),
}


def verdict_on(plan: Plan) -> Verdict:
    return verify(plan, numbers(plan.graph, given_tensors(plan), {}))


@pytest.mark.parametrize("devices", [2, 4, 8, 16])
@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize("net", NETS)
def test_any_plan_computes_the_same_and_sends_what_it_lists(
    net: str, target: str, devices: int
) -> None:
    request = SearchRequest(training=False, target=target)
    for seed in range(4):
        verdict = verdict_on(drawn_plan(NETS[net](), devices, request, seed))
        assert not verdict.not_verified
        assert not verdict.mismatches
        assert verdict.passed


def test_most_of_these_plans_send_something() -> None:
    request = SearchRequest(training=False, target="generic")
    plans = [drawn_plan(NETS["attention"](), 8, request, seed) for seed in range(6)]
    assert sum(verdict_on(plan).messages > 3 for plan in plans) >= 4
