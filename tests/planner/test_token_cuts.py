"""Sequence parallel or not: which dimensions are tokens, and what is left of the candidates."""

from __future__ import annotations

import pytest

from ir.ops import Engine, lookup
from ir.plan import Plan
from planner.request import RequestError, SearchRequest
from planner.search import search
from planner.token_cuts import token_dims
from tests.builders import GraphBuilder, attention_block, mlp
from topology.catalogue import named_cluster


def planned(choice: str) -> Plan:
    asked = SearchRequest(target="generic", sequence_parallel=choice)
    return search(attention_block(batch=1), named_cluster("atlas-800t-a2", 8), asked)


def test_tokens_are_followed_through_reshapes_and_attention() -> None:
    graph = attention_block()
    found = token_dims(graph)
    for op in graph.ops:
        if op.kind == "Transpose":
            place = 2 if graph.tensors[op.outputs[0]].dims[1] == 8 else 1
            assert found[op.outputs[0]] == {place}
        elif op.kind in {"MatMul", "Add", "Attention"}:
            assert graph.tensors[op.outputs[0]].dims[min(found[op.outputs[0]])] == 128
    assert not token_dims(mlp(2))


def test_off_cuts_no_tokens() -> None:
    plan = planned("off")
    tokens = token_dims(plan.graph)
    for op, planned_op in zip(plan.graph.ops, plan.operators, strict=True):
        for name, layout in zip(op.outputs, planned_op.outputs, strict=True):
            if layout is not None:
                assert not any(layout.dims[place] for place in tokens.get(name, ()))


def test_on_repeats_no_work_on_tokens() -> None:
    plan = planned("on")
    tokens = token_dims(plan.graph)
    checked = 0
    for op, planned_op in zip(plan.graph.ops, plan.operators, strict=True):
        if lookup(op.kind).engine is Engine.VECTOR and op.inputs[0] in tokens:
            checked += 1
            assert all(factor >= 0 for _, factor in planned_op.split)
    assert checked


def test_left_open_is_no_worse_than_either() -> None:
    free = planned("auto").estimate.step_time_s
    assert free <= min(planned(choice).estimate.step_time_s for choice in ("on", "off")) * (
        1 + 1e-9
    )


def test_a_model_without_tokens_is_told() -> None:
    with pytest.raises(RequestError, match="no sequence of tokens"):
        search(mlp(2), named_cluster("atlas-800t-a2", 8), SearchRequest(sequence_parallel="off"))


@pytest.mark.parametrize(
    ("solver", "cut"), [("propagation", True), ("mindspore_propagation", False)]
)
def test_mindspore_draws_up_no_cuts_of_the_channels_that_a_convolution_makes(
    solver: str, cut: bool
) -> None:
    """The real 2.10.0 logs 35 strategies for such an operator; all have 1 there."""
    build = GraphBuilder("net")
    x, weight = build.input("x", (8, 16, 16, 16)), build.weight("w", (32, 16, 3, 3))
    made = build.op(
        "Conv", (x, weight), (8, 32, 16, 16), name="c", kernel_shape=(3, 3), pads=(1,) * 4
    )
    graph = build.build(build.op("Softmax", (made,), (8, 32, 16, 16), name="s", axis=3))
    pins = (("op_s", ((1, 8, 1, 1),)),)
    asked = SearchRequest(pins=pins, solver=solver, dataset_strategy="full_batch")
    plan = search(graph, named_cluster("atlas-800t-a2", 8), asked)
    (found,) = (op for op in plan.operators if op.kind == "Conv")
    layout = found.inputs[1]
    assert layout is not None
    assert bool(layout.dims[0]) is cut
