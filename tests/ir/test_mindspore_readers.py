"""The operators of a plan as MindSpore has them, and how often they are read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest

from exporters.formats import FORMATS
from ir.graph import Op, OpGraph
from ir.mindspore_forms import readers
from ir.mindspore_forms.primitives import PrimitiveForm, primitive_form
from ir.mindspore_forms.readers import operators, read_stage
from ir.ops import OpView
from ir.plan import Plan
from ir.plan_stages import stage_plan
from ir.rule import ShardingRule
from planner.pipeline.space import Configuration
from tests.builders import GraphBuilder
from tests.executors.drawn_stages import drawn_stages

pytestmark = pytest.mark.fast


def residuals(layers: int, batch: int = 4, width: int = 64) -> OpGraph:
    """Products with composites of an addition and an activation between them."""
    build = GraphBuilder("residuals")
    dims = (batch, width)
    x = build.input("x", dims)
    for layer in range(layers):
        y = build.op("MatMul", (x, build.weight(f"w.{layer}", (width, width))), dims)
        y = build.op("Add", (y, x), dims)
        x = build.op("Relu", (build.op("Sigmoid", (y,), dims),), dims)
    return build.build(x)


@pytest.fixture
def plan() -> Plan:
    return drawn_stages(residuals(4), 8, Configuration(2, 4, 4), "mindspore", 3)


def test_a_stage_is_read_as_part_of_its_plan(plan: Plan) -> None:
    """What is read for all stages at once is what each of them alone would give."""
    assert any(op.parts for op in plan.graph.ops)
    for stage in range(len(plan.pipeline.stages)):
        together, alone = read_stage(plan, stage), stage_plan(plan, stage)
        assert together == alone
        assert list(operators(together)) == list(operators(alone))


def test_every_operator_is_read_once_for_all_files(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[str] = Counter()

    def counted(view: OpView, rule: ShardingRule) -> PrimitiveForm:
        read[view.op.name] += 1
        return primitive_form(view, rule)

    monkeypatch.setattr(readers, "primitive_form", counted)
    for name in ("mindspore", "mindspore-apply"):
        FORMATS[name].writer(plan, None)
        FORMATS[name].losses(plan, None)
    parts = chain.from_iterable(op.parts or (op,) for op in plan.graph.ops)
    assert read == Counter(op.name for op in parts)


def test_plans_of_one_graph_have_their_own_cuts(plan: Plan) -> None:
    """What is kept of a graph is the same in all its plans."""
    whole = tuple(
        replace(op, split=tuple((axis, -1) for axis, _ in op.split)) for op in plan.operators
    )
    before, after = list(operators(plan)), list(operators(replace(plan, operators=whole)))
    assert any(factor >= 0 for each in before for factor in each.split)
    assert all(set(each.split) == {-1} for each in after)
    assert [each.form for each in before] == [each.form for each in after]


def test_another_graph_is_read_anew(plan: Plan) -> None:
    def moved(op: Op) -> Op:
        return replace(op, scope=f"new.{op.scope}", parts=tuple(moved(p) for p in op.parts))

    list(operators(plan))
    ops = tuple(moved(op) for op in plan.graph.ops)
    found = operators(replace(plan, graph=replace(plan.graph, ops=ops)))
    assert all(each.op.scope.startswith("new.") for each in found)
