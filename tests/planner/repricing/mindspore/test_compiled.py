"""A step with the strategies that MindSpore used."""

from __future__ import annotations

import functools

import pytest

from ir.mindspore_forms.strategies import Strategy
from ir.ops import OpView, lookup
from ir.plan import Plan
from planner.repricing.mindspore.compiled import compiled_step_s
from planner.request import SearchRequest
from planner.search import search
from tests.builders import attention_block, mlp
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast


@functools.cache
def plan(training: bool = True) -> Plan:
    wanted = SearchRequest(dtype="fp16", time_limit_s=None, training=training)
    return search(attention_block(), named_cluster("atlas-800t-a2", 8), wanted)


def as_planned(found: Plan) -> dict[str, Strategy]:
    """The cuts of all operands of every operator of a plan."""
    sizes = [size for _, size, _ in found.mesh]
    out: dict[str, Strategy] = {}
    for op, planned in zip(found.graph.ops, found.operators, strict=True):
        if not op.outputs:
            continue
        split = dict(enumerate(factor for _, factor in planned.split))
        rule = lookup(op.kind).rule(OpView(op, found.graph))
        strategy = []
        for dims in rule.operands:
            own = []
            for dim in dims or ():
                cut = 1
                for axis, factor in split.items():
                    cut *= sizes[axis] if factor in dim else 1
                own.append(cut)
            strategy.append(tuple(own))
        out[op.name] = tuple(strategy)
    return out


@pytest.mark.parametrize("training", [True, False])
def test_as_planned_it_is_the_plans_step(training: bool) -> None:
    found = plan(training)
    step_s = compiled_step_s(found, as_planned(found))
    assert step_s == pytest.approx(found.estimate.step_time_s, rel=1e-9)


def test_with_an_operator_that_is_repeated_it_is_longer() -> None:
    used = as_planned(plan())
    product = next(op for op in plan().graph.ops if op.kind == "MatMul")
    used[product.name] = tuple((1,) * len(cuts) for cuts in used[product.name])
    step_s = compiled_step_s(plan(), used)
    assert step_s is not None
    assert step_s > plan().estimate.step_time_s * 1.01


def test_another_target_has_no_such_step() -> None:
    wanted = SearchRequest(target="generic", time_limit_s=None)
    found = search(mlp(1), named_cluster("atlas-800t-a2", 8), wanted)
    assert compiled_step_s(found, {}) is None
