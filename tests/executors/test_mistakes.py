"""Mistakes made on purpose: each makes the verdict a failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executors.verdict import Verdict
from ir.graph import OpGraph
from ir.ops import OpView, registry
from ir.plan import NamedLayout, Plan, PlannedCollective
from ir.rule import InternalCollective, ShardingRule
from planner.request import SearchRequest
from tests.builders import GraphBuilder, attention_block
from tests.executors.drawn_plans import drawn_plan
from tests.executors.test_reference import verdict_on

REQUEST = SearchRequest(training=False, target="generic")


def wrong(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    factor: int,
    internal: tuple[InternalCollective, ...],
) -> None:
    """Replace the rule of a kind by one that is wrong about a factor, and split that factor."""
    entry = registry.lookup(kind)

    def rule(view: OpView) -> ShardingRule:
        right = entry.rule(view)
        whole = frozenset(range(len(right.sizes))) - {factor}
        return replace(right, internal=internal, locked=whole)

    monkeypatch.setitem(registry._CATALOGUE, kind, replace(entry, rule=rule))


def silent(factor: int) -> tuple[InternalCollective, ...]:
    """A reduction that nobody makes."""
    return (InternalCollective((factor,), (), forward=0, backward=0),)


def split_plans(graph: OpGraph, name: str, factor: int) -> list[Plan]:
    """Drawn plans in which an operator has a factor split."""
    plans = [drawn_plan(graph, 2, REQUEST, seed) for seed in range(12)]
    ops = [next(o for o in plan.operators if o.name == f"op_{name}") for plan in plans]
    found = [p for p, o in zip(plans, ops, strict=True) if any(f == factor for _, f in o.split)]
    assert found, "no plan splits it"
    return found


def product() -> OpGraph:
    build = GraphBuilder("product")
    x, w = build.input("x", (8, 16)), build.weight("w", (16, 4))
    return build.build(build.op("MatMul", (x, w), (8, 4), name="product"))


def soft() -> OpGraph:
    build = GraphBuilder("soft")
    x = build.input("x", (8, 16))
    return build.build(build.op("Softmax", (x,), (8, 16), name="soft", axis=1))


def table() -> OpGraph:
    build = GraphBuilder("table")
    rows = build.input("rows", (8,), "int64")
    w = build.weight("w", (16, 4))
    return build.build(build.op("Gather", (w, rows), (8, 4), name="table", axis=0))


def failed(plans: list[Plan]) -> list[Verdict]:
    verdicts = [verdict_on(plan) for plan in plans]
    assert not any(v.passed for v in verdicts)
    return verdicts


def test_a_product_without_its_reduction_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = registry.lookup("MatMul").rule
    graph = product()
    inner = rule(OpView(graph.ops[0], graph)).operands[0]
    assert inner is not None
    k = inner[1][0]
    assert all(verdict_on(plan).passed for plan in split_plans(graph, "product", k))
    wrong(monkeypatch, "MatMul", k, silent(k))
    assert all(v.disagreement > 0 for v in failed(split_plans(graph, "product", k)))


def test_a_softmax_split_along_its_axis_without_messages_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong(monkeypatch, "Softmax", 1, ())
    assert all(v.mismatches for v in failed(split_plans(soft(), "soft", 1)))


def test_a_lookup_that_forgets_its_sum_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = table()
    assert all(verdict_on(plan).passed for plan in split_plans(graph, "table", 0))
    wrong(monkeypatch, "Gather", 0, silent(0))
    failed(split_plans(graph, "table", 0))


def test_a_convolution_whose_positions_are_split_without_a_halo_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = GraphBuilder("image")
    x, w = build.input("x", (2, 3, 8, 8)), build.weight("w", (4, 3, 3, 3))
    graph = build.build(build.op("Conv", (x, w), (2, 4, 8, 8), name="image", pads=(1, 1, 1, 1)))
    entry = registry.lookup("Conv")

    def rule(view: OpView) -> ShardingRule:
        right = entry.rule(view)
        others = frozenset(range(len(right.sizes))) - {w.factor for w in right.windows}
        return replace(right, locked=others, windows=())

    monkeypatch.setitem(registry._CATALOGUE, "Conv", replace(entry, rule=rule))
    failed(split_plans(graph, "image", 4))


def moved() -> Plan:
    """A plan that gathers or exchanges something."""
    for seed in range(20):
        plan = drawn_plan(attention_block(4, 8, 4, 8), 8, REQUEST, seed)
        if any(_is_moved(item) for item in plan.collectives):
            assert verdict_on(plan).passed
            return plan
    raise AssertionError("no plan moves anything")


def _is_moved(item: PlannedCollective) -> bool:
    return item.kind in {"all_gather", "all_to_all"} and item.before is not None


@pytest.mark.parametrize("changes", [{"kind": "all_reduce"}, {"nbytes": 8.0}])
def test_a_message_that_is_another_one_is_caught(changes: dict[str, object]) -> None:
    plan = moved()
    items = list(plan.collectives)
    index = next(i for i, item in enumerate(items) if _is_moved(item))
    items[index] = replace(items[index], **changes)  # type: ignore[arg-type]
    (verdict,) = failed([replace(plan, collectives=tuple(items))])
    assert len(verdict.mismatches) == 1


def test_a_message_that_the_plan_forgets_is_caught() -> None:
    plan = moved()
    items = list(plan.collectives)
    del items[next(i for i, item in enumerate(items) if _is_moved(item))]
    (verdict,) = failed([replace(plan, collectives=tuple(items))])
    assert any(not each.planned for each in verdict.mismatches)


def test_a_layout_edited_by_hand_is_caught() -> None:
    plan = moved()
    names = [name for name, _, _ in plan.mesh]
    for index, op in enumerate(plan.operators):
        if op.kind != "MatMul" or op.outputs[0] is None:
            continue
        dims = len(op.outputs[0].dims)
        other = NamedLayout(((names[-1],), *((),) * (dims - 1)))
        if other == op.outputs[0]:
            other = NamedLayout(((),) * dims)
        edited = replace(op, outputs=(other,))
        operators = (*plan.operators[:index], edited, *plan.operators[index + 1 :])
        failed([replace(plan, operators=operators)])
        return
    raise AssertionError("no product")
