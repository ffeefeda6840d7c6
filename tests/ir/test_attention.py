"""Decomposed attention becomes one operator, whatever form the exporter wrote, and nothing else
does.
"""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.graph import Op, OpGraph, Role
from ir.normalise import normalise
from ir.normalise.attention import recognise_attention
from ir.ops import OpView, check_operators, lookup
from tests.builders import GraphBuilder
from tests.ir.blocks import Form, block

FORMS = st.builds(
    Form,
    batch=st.sampled_from([1, 2]),
    key_heads=st.sampled_from([1, 2, 4]),
    scale=st.sampled_from(["scores mul", "scores div", "operands", "none"]),
    mask=st.sampled_from(["none", "add", "batch", "where", "bias"]),
    guard=st.booleans(),
    cast=st.booleans(),
    dropout=st.booleans(),
)


def attention_of(graph: OpGraph) -> Op:
    (found,) = (op for op in graph.ops if op.kind == "Attention")
    return found


@given(FORMS)
def test_every_form_is_recognised(form: Form) -> None:
    graph = recognise_attention(block(form))
    graph.validate()
    check_operators(graph)
    assert "Softmax" not in {op.kind for op in graph.ops}
    view = OpView(attention_of(graph), graph)
    assert view.dims(0) == (form.batch, form.heads, form.rows, form.width)
    assert view.dims(1)[:2] == (form.batch, form.key_heads)
    assert view.dims(2) == (form.batch, form.key_heads, form.rows, form.width)
    assert view.has(3) == (form.mask != "none")


@given(FORMS)
def test_the_parts_are_the_operators_that_went(form: Form) -> None:
    before = block(form)
    after = recognise_attention(before)
    parts = attention_of(after).parts
    assert len(before.ops) == len(after.ops) - 1 + len(parts)
    position = {op.name: i for i, op in enumerate(before.ops)}
    places = [position[p.name] for p in parts]
    assert places == sorted(places)


@given(FORMS)
def test_no_scores_are_left_in_memory(form: Form) -> None:
    """Nothing but a bias has a row for every pair of rows."""
    graph = normalise(block(dataclasses.replace(form, rows=24)))
    made = {n for op in graph.ops for n in op.outputs} - set(attention_of(graph).inputs)
    assert all(graph.tensors[n].dims[-2:] != (24, 24) for n in made)


def test_scores_that_the_user_wants_stay() -> None:
    graph = recognise_attention(block(Form(keys_outside=True)))
    assert "Attention" not in {op.kind for op in graph.ops}


def test_scores_that_another_operator_reads_stay() -> None:
    graph = block(Form())
    spy = Op("spy", "Relu", ("scores",), ("seen",), {})
    tensors = {**graph.tensors, "seen": dataclasses.replace(graph.tensors["scores"], name="seen")}
    ops = (*graph.ops, spy)
    spied = dataclasses.replace(graph, ops=ops, tensors=tensors, outputs=(*graph.outputs, "seen"))
    spied.validate()
    assert "Attention" not in {op.kind for op in recognise_attention(spied).ops}


def test_a_softmax_over_another_axis_is_no_attention() -> None:
    graph = block(Form())
    ops = tuple(
        dataclasses.replace(op, attributes={"axis": 2}) if op.kind == "Softmax" else op
        for op in graph.ops
    )
    turned = dataclasses.replace(graph, ops=ops)
    assert "Attention" not in {op.kind for op in recognise_attention(turned).ops}


def test_a_classifier_is_no_attention() -> None:
    build = GraphBuilder("classifier")
    x = build.input("x", (8, 64))
    y = build.op("MatMul", (x, build.weight("w", (64, 10))), (8, 10))
    graph = build.build(build.op("Softmax", (y,), (8, 10), axis=1))
    assert recognise_attention(graph) == graph


def test_decomposed_attention_stays_when_asked_for() -> None:
    kinds = {op.kind for op in normalise(block(Form()), fused_attention=False).ops}
    assert "Softmax" in kinds
    assert "Attention" not in kinds


@pytest.mark.parametrize("key_heads", [1, 2])
def test_an_attention_operator_reads_the_key_heads_themselves(key_heads: int) -> None:
    """Repeated heads in front of the one operator of newer opsets are absorbed too."""
    build = GraphBuilder("operator")
    q = build.input("q", (2, 4, 6, 8))
    sides = []
    for name in ("k", "v"):
        y = build.input(name, (2, key_heads, 6, 8))
        y = build.op("Unsqueeze", (y,), (2, key_heads, 1, 6, 8), axes=(2,))
        y = build.op("Expand", (y,), (2, key_heads, 4 // key_heads, 6, 8))
        sides.append(build.op("Reshape", (y,), (2, 4, 6, 8)))
    graph = recognise_attention(build.build(build.op("Attention", (q, *sides), (2, 4, 6, 8))))
    assert [op.kind for op in graph.ops] == ["Attention"]
    assert graph.ops[0].inputs == ("q", "k", "v")
    rule = lookup("Attention").rule(OpView(graph.ops[0], graph))
    assert rule.operands[0] == ((0,), (1, 2), (3,), (5,))


def test_attention_costs_the_same_before_and_after() -> None:
    form = Form(batch=2, rows=16, key_heads=2)
    before, after = block(form), recognise_attention(block(form))

    def products(graph: OpGraph) -> int:
        return sum(
            lookup(op.kind).flops(OpView(op, graph))
            for op in graph.ops
            if op.kind in {"MatMul", "Attention"}
        )

    assert products(before) == products(after)


def test_a_weight_is_no_mask_role() -> None:
    """The mask of an attention keeps the role that it had."""
    graph = recognise_attention(block(Form(mask="add")))
    assert graph.tensors[attention_of(graph).inputs[3]].role is Role.CONSTANT
