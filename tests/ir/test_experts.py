"""A mixture of experts that gathers weights per token becomes grouped products."""

from __future__ import annotations

import pytest

from ir.batch import with_batch
from ir.graph import OpGraph, Role
from ir.normalise import normalise
from ir.normalise.experts import group_experts
from ir.ops import OpView, check_operators, lookup
from tests.builders import GraphBuilder

pytestmark = pytest.mark.fast

TOKENS, CHOSEN, EXPERTS, WIDTH, HIDDEN = 32, 2, 8, 16, 24


def mixture(*, row: bool = True, gather: str = "Gather") -> OpGraph:
    """The pattern of exported mixtures of experts: routing, then one weight for every token."""
    build = GraphBuilder("mixture")
    op, slots = build.op, TOKENS * CHOSEN
    x = build.input("x", (TOKENS, WIDTH))
    scores = op("MatMul", (x, build.weight("router", (WIDTH, EXPERTS))), (TOKENS, EXPERTS))
    scores = op("Softmax", (scores,), (TOKENS, EXPERTS), axis=1)
    share = op("TopK", (scores,), (TOKENS, CHOSEN), axis=1)
    index = op("Cast", (share,), (TOKENS, CHOSEN))
    index = op("Reshape", (index,), (slots,) if gather == "Gather" else (slots, 1))
    tokens = op("Unsqueeze", (x,), (TOKENS, 1, WIDTH), axes=(1,))
    tokens = op("Expand", (tokens,), (TOKENS, CHOSEN, WIDTH))
    y = op("Reshape", (tokens,), (slots, 1, WIDTH) if row else (slots, WIDTH, 1))

    def product(y: str, name: str, wide: int, out: int) -> str:
        dims = (wide, out) if row else (out, wide)
        weight = build.weight(name, (EXPERTS, *dims))
        picked = op(gather, (weight, index), (slots, *dims))
        result = (slots, 1, out) if row else (slots, out, 1)
        return op("MatMul", (y, picked) if row else (picked, y), result)

    inner = (slots, 1, HIDDEN) if row else (slots, HIDDEN, 1)
    gate, up = product(y, "gate", WIDTH, HIDDEN), product(y, "up", WIDTH, HIDDEN)
    gate = op("Mul", (gate, op("Sigmoid", (gate,), inner)), inner)
    y = product(op("Mul", (gate, up), inner), "down", HIDDEN, WIDTH)
    y = op("Reshape", (y,), (TOKENS, CHOSEN, WIDTH))
    share = op("Unsqueeze", (share,), (TOKENS, CHOSEN, 1), axes=(2,))
    y = op(
        "ReduceSum", (op("Mul", (y, share), (TOKENS, CHOSEN, WIDTH)),), (TOKENS, WIDTH), axes=(1,)
    )
    return build.build(y)


FORMS = [(True, "Gather"), (False, "Gather"), (True, "GatherND"), (False, "GatherND")]


@pytest.mark.parametrize(("row", "gather"), FORMS)
def test_gathered_weights_are_gone(row: bool, gather: str) -> None:
    before = mixture(row=row, gather=gather)
    after = group_experts(before)
    after.validate()
    check_operators(after)
    kinds = [op.kind for op in after.ops]
    assert gather not in kinds
    assert kinds.count("ExpertMatMul") == 3
    largest = max(t.elements for t in before.tensors.values())
    assert largest == TOKENS * CHOSEN * WIDTH * HIDDEN
    slots = TOKENS * CHOSEN // EXPERTS
    made = [t for t in after.tensors.values() if t.role is Role.ACTIVATION]
    assert max(t.elements for t in made) <= EXPERTS * slots * HIDDEN


@pytest.mark.parametrize(("row", "gather"), FORMS)
def test_tokens_are_sent_once_and_collected_once(row: bool, gather: str) -> None:
    """Gate, activation and second product run in the slots between one dispatch and one
    combination.
    """
    kinds = [op.kind for op in group_experts(mixture(row=row, gather=gather)).ops]
    first, last = kinds.index("Dispatch"), kinds.index("Combine")
    assert kinds.count("Combine") == 1
    assert {"Sigmoid", "Mul", "ExpertMatMul"} <= set(kinds[first:last])


@pytest.mark.parametrize(("row", "gather"), FORMS)
def test_the_arithmetic_stays(row: bool, gather: str) -> None:
    def products(graph: OpGraph) -> int:
        return sum(
            lookup(op.kind).flops(OpView(op, graph))
            for op in graph.ops
            if op.kind in {"MatMul", "ExpertMatMul"}
        )

    before = mixture(row=row, gather=gather)
    assert products(group_experts(before)) == products(before)


def test_experts_may_be_split() -> None:
    graph = group_experts(mixture())
    for op in graph.ops:
        rule = lookup(op.kind).rule(OpView(op, graph))
        if op.kind == "ExpertMatMul":
            assert rule.sizes[rule.splittable[0]] == EXPERTS


def test_the_batch_is_followed_before_grouping() -> None:
    graph = normalise(with_batch(mixture(), 4 * TOKENS))
    slots = {graph.tensors[op.outputs[0]].dims[:2] for op in graph.ops if op.kind == "ExpertMatMul"}
    assert slots == {(EXPERTS, 4 * TOKENS * CHOSEN // EXPERTS)}


def test_a_gather_with_other_readers_stays() -> None:
    build = GraphBuilder("other reader")
    x, index = build.input("x", (8, 1, 4)), build.input("index", (8,), "int64")
    weight = build.weight("w", (2, 4, 6))
    picked = build.op("Gather", (weight, index), (8, 4, 6), axis=0)
    y = build.op("MatMul", (x, picked), (8, 1, 6))
    graph = build.build(y, build.op("Relu", (picked,), (8, 4, 6)))
    assert group_experts(graph) == graph


def test_a_gather_of_single_rows_is_no_mixture() -> None:
    """Indices that reach into the weights pick elements, not experts."""
    build = GraphBuilder("elements")
    x, index = build.input("x", (8, 1, 4)), build.input("index", (8, 4, 6, 3), "int64")
    picked = build.op("GatherND", (build.weight("w", (2, 4, 6)), index), (8, 4, 6))
    graph = build.build(build.op("MatMul", (x, picked), (8, 1, 6)))
    assert group_experts(graph) == graph


def test_an_embedding_is_no_mixture() -> None:
    build = GraphBuilder("embedding")
    ids = build.input("ids", (8,), "int64")
    y = build.op("Gather", (build.weight("w", (100, 16)), ids), (8, 16), axis=0)
    graph = build.build(build.op("MatMul", (y, build.weight("v", (16, 4))), (8, 4)))
    assert group_experts(graph) == graph
