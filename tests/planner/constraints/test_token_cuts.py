"""Sequence parallel or not: which dimensions are tokens, and what is left of the candidates."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ir.factor_roles import token_dims
from ir.ops import Engine, lookup
from ir.plan import Plan
from planner.constraints.token_cuts import context_notes
from planner.explain.plan_request import request_of
from planner.pipeline.pipeline_search import search_pipeline
from planner.request import RequestError, SearchRequest
from planner.search import search
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


def context_parts(plan: Plan) -> set[int]:
    """In how many parts attention of a plan cuts the tokens of its queries."""
    sizes = {name: size for name, size, _ in plan.mesh}
    out = set()
    for op, planned_op in zip(plan.graph.ops, plan.operators, strict=True):
        if lookup(op.kind).engine is Engine.ATTENTION:
            layout = planned_op.outputs[0]
            assert layout is not None
            out.add(math.prod(sizes[axis] for axis in layout.dims[2]))
    return out


@pytest.mark.parametrize("target", ["mindspore", "generic"])
@pytest.mark.parametrize(("choice", "parts"), [("off", 1), ("1", 1), ("2", 2), ("8", 8)])
def test_attention_cuts_its_context_as_it_is_asked_to(choice: str, parts: int, target: str) -> None:
    asked = SearchRequest(target=target, context_parallel=choice)
    plan = search(attention_block(batch=8), named_cluster("atlas-800t-a2", 8), asked)
    assert context_parts(plan) == {parts}
    kept = request_of(plan).context_parallel
    assert kept == choice
    note = context_notes(plan.graph, plan.mesh, plan.operators)
    assert bool(note) == (parts > 1)
    assert all(f"into {parts}, " in text for text in note)


def test_the_context_is_cut_as_is_best_where_that_is_left_open() -> None:
    """Of all numbers of parts the best; one sample leaves little else to cut."""
    cluster, graph = named_cluster("atlas-800t-a2", 8), attention_block(batch=1, rows=4096, heads=2)
    steps = {}
    for choice in ("auto", "off", "2", "4", "8"):
        asked = SearchRequest(target="generic", context_parallel=choice)
        steps[choice] = search(graph, cluster, asked).estimate.step_time_s
    assert steps["auto"] == pytest.approx(min(steps.values()), rel=1e-9)
    assert min(steps["4"], steps["8"]) < steps["off"]


@pytest.mark.parametrize("target", ["mindspore", "generic"])
def test_stages_cut_their_context_too(target: str) -> None:
    """With everything else open the joint answer is the best of all numbers of parts, where the
    mesh of a stage is fine enough for all of them.
    """
    cluster = named_cluster("atlas-800t-a2", 4)
    graph = attention_block(batch=2, rows=4096, heads=2)

    def whole(choice: str, **more: str) -> Plan:
        asked = SearchRequest(target=target, global_batch=2, context_parallel=choice, **more)  # type: ignore[arg-type]
        return search_pipeline(graph, cluster, asked)

    two = whole("2", pipeline="2", micro_batch="1")
    assert context_parts(two) == {2}
    assert any("context parallelism" in note for note in two.notes)
    times = [whole(choice).estimate.step_time_s for choice in ("off", "2", "4")]
    if target == "mindspore":
        assert whole("auto").estimate.step_time_s == pytest.approx(min(times), rel=1e-9)
    with pytest.raises(
        RequestError, match=r"no stage of any pipeline .* 4\n.*\n  fix: use .* off or 2$"
    ):
        whole("4", pipeline="2")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"context_parallel": "3"}, r"no mesh of 8 .* into 3\n.*\n  fix: use off, 2, 4 or 8$"),
        ({"context_parallel": "2", "sequence_parallel": "off"}, "nothing is cut along its tokens"),
    ],
)
def test_a_context_that_cannot_be_cut_so_is_told(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        search(attention_block(), named_cluster("atlas-800t-a2", 8), SearchRequest(**asked))
    with pytest.raises(RequestError, match="cannot cut its tokens into 8"):
        search(
            attention_block(rows=12),
            named_cluster("atlas-800t-a2", 8),
            SearchRequest(context_parallel="8"),
        )


def test_a_model_without_attention_is_told() -> None:
    build = GraphBuilder("net")
    x = build.input("x", (8, 128, 64))
    made = build.op("MatMul", (x, build.weight("w", (64, 64))), (8, 128, 64))
    with pytest.raises(RequestError, match="no operator that is attention"):
        search(
            build.build(made),
            named_cluster("atlas-800t-a2", 8),
            SearchRequest(context_parallel="2"),
        )
