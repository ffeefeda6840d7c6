"""Graphs of any size are readable at first: few nodes with names, and every operator in one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.plan import Plan
from planner.search import search
from service.views.graph import Level, graph_view
from service.views.groups import MOST_NODES, grouped
from service.views.operator import operator_view
from tests.builders import GraphBuilder
from tests.service_views.plans_of import FAST, plan_of
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast
PATHS = st.lists(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=4).map(tuple), min_size=1, max_size=60
)


@given(PATHS, st.integers(2, 12), st.sets(st.sampled_from(["a", "a/b", "b", "c/a"])))
def test_groups_hold_every_node_once(
    paths: list[tuple[str, ...]], most: int, opened: set[str]
) -> None:
    found = grouped(paths, opened, most)
    assert sorted(node for _, own in found for node in own) == list(range(len(paths)))
    assert len(grouped(paths, (), most)) <= most
    assert all(len(own) > 1 for name, own in found if name)
    names = [name for name, _ in found if name]
    assert len(names) == len(set(names))
    assert not set(names) & opened


@cache
def chain(count: int, *, scoped: bool) -> Plan:
    """Products in a row, in modules or in none."""
    build = GraphBuilder("chain")
    x = build.input("x", (64, 64))
    for at in range(count):
        x = build.op("MatMul", (x, build.weight(f"w{at}", (64, 64))), (64, 64))
    graph = build.build(x)
    scopes = [f"m.part{at // 40}.piece{at // 7}.op{at}" if scoped else "" for at in range(count)]
    ops = [replace(op, scope=scope) for op, scope in zip(graph.ops, scopes, strict=False)]
    graph = graph.with_ops([*ops, *graph.ops[len(ops) :]])
    return search(graph, named_cluster("atlas-800t-a2", 2), replace(FAST, training=False))


@pytest.mark.parametrize("scoped", [True, False])
@pytest.mark.parametrize("count", [20, 400])
def test_a_graph_of_any_size_begins_with_few_nodes_that_have_names(
    count: int, scoped: bool
) -> None:
    plan = chain(count, scoped=scoped)
    view = graph_view(plan, Level.FOLDED)
    nodes = view["nodes"]
    assert view["count"] <= MOST_NODES
    assert sum(nodes["count"]) == len(plan.operators)
    assert all(nodes["labels"][label] for label in nodes["label"])
    assert len(set(nodes["name"])) == len(nodes["name"])
    assert len(view["shapes"]) == len(view["edges"])
    assert sum(nodes["time_s"]) == pytest.approx(
        sum(graph_view(plan, Level.OPERATORS)["nodes"]["time_s"]), abs=1e-6
    )


@pytest.mark.slow
def test_a_module_that_is_opened_shows_what_is_inside() -> None:
    plan = chain(400, scoped=True)
    folded = graph_view(plan, Level.FOLDED)
    module = next(group for group in folded["nodes"]["group"] if group)
    opened = graph_view(plan, Level.FOLDED, [module])
    assert module not in opened["nodes"]["group"]
    assert opened["count"] > folded["count"]


@pytest.mark.slow
def test_products_are_called_by_their_modules_and_edges_have_shapes() -> None:
    view = graph_view(plan_of("layers"), Level.FOLDED)
    nodes = view["nodes"]
    assert {"head", "embed", "mlp"} <= {nodes["labels"][label] for label in nodes["label"]}
    assert "256 × 1024" in view["shapes"]


def test_an_operator_has_attributes_and_tensors() -> None:
    plan = plan_of("attention")
    for op in plan.graph.ops:
        view = operator_view(plan, op.name)
        assert set(view["attributes"]) == set(op.attributes)
        told = {part["title"]: part for part in view["report"]}
        for title, names in (("Operands", op.inputs), ("Results", op.outputs)):
            lines = [line for line in told[title]["lines"] if not line.startswith("  ")]
            assert [line.partition(" ")[0] for line in lines] == [name for name in names if name]
