"""The canonical hash: names and order do not count, everything else does."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ir.canonical import canonical_digest
from ir.graph import Op, OpGraph, Role, Tensor
from ir.normalise import normalise
from tests.builders import attention_block, mlp

pytestmark = pytest.mark.fast


def renamed(graph: OpGraph) -> OpGraph:
    """Other names, and the operators in another order that they can run in."""

    def new(name: str) -> str:
        return f"~{name[::-1]}" if name else ""

    def op_of(op: Op) -> Op:
        return replace(
            op, name=f"op{op.name[::-1]}", inputs=tuple(map(new, op.inputs)), scope="elsewhere",
            outputs=tuple(map(new, op.outputs)), parts=tuple(map(op_of, op.parts)),
        )  # fmt: skip

    draw = random.Random(3)
    known = {n for n, t in graph.tensors.items() if t.role is not Role.ACTIVATION}
    waiting, ops = list(graph.ops), []
    while waiting:
        ready = [o for o in waiting if all(not n or n in known for n in o.inputs)]
        op = draw.choice(ready)
        known.update(op.outputs)
        waiting.remove(op)
        ops.append(op_of(op))
    table = [replace(t, name=new(n)) for n, t in graph.tensors.items()]
    draw.shuffle(table)
    return replace(
        graph, name="other", tensors={t.name: t for t in table}, ops=tuple(ops),
        inputs=tuple(map(new, graph.inputs)), outputs=tuple(map(new, graph.outputs)),
    )  # fmt: skip


@pytest.mark.parametrize("graph", [mlp(3), attention_block()], ids=["mlp", "attention"])
@pytest.mark.parametrize("normal", [False, True])
def test_names_and_order_do_not_count(graph: OpGraph, normal: bool) -> None:
    ready = normalise(graph) if normal else graph
    other = renamed(graph)
    other.validate()
    assert canonical_digest(normalise(other) if normal else other) == canonical_digest(ready)


def test_depth_and_sizes_count() -> None:
    found = {canonical_digest(mlp(n, width=w)) for n in (1, 2, 3) for w in (64, 128)}
    assert len(found) == 6


def product(weights: tuple[str, str], order: tuple[int, int] = (0, 1)) -> OpGraph:
    """Two products one behind the other."""
    table = [Tensor(n, (8, 8), "float32", Role.PARAMETER) for n in set(weights)]
    table += [Tensor("x", (8, 8), "float32", Role.INPUT)]
    table += [Tensor(n, (8, 8), "float32") for n in ("h", "y")]
    first = tuple(("x", weights[0])[i] for i in order)
    ops = (Op("a", "MatMul", first, ("h",)), Op("b", "MatMul", ("h", weights[1]), ("y",)))
    return OpGraph("g", {t.name: t for t in table}, ops, ("x",), ("y",))


def test_a_shared_weight_is_another_graph_than_two() -> None:
    assert canonical_digest(product(("w", "w"))) != canonical_digest(product(("v", "w")))


def test_the_side_of_an_operand_counts_where_it_matters() -> None:
    graph = product(("v", "w"))
    assert canonical_digest(graph) != canonical_digest(product(("v", "w"), (1, 0)))
    sums = [
        replace(g, ops=tuple(replace(o, kind="Add") for o in g.ops))
        for g in (graph, product(("v", "w"), (1, 0)))
    ]
    assert canonical_digest(sums[0]) == canonical_digest(sums[1])


def test_attributes_types_roles_and_outputs_count() -> None:
    graph = product(("v", "w"))
    others = [
        replace(graph, ops=(graph.ops[0], replace(graph.ops[1], attributes={"trans_b": 1}))),
        replace(graph, tensors={n: replace(t, dtype="float16") for n, t in graph.tensors.items()}),
        replace(
            graph,
            tensors={**graph.tensors, "v": replace(graph.tensors["v"], role=Role.CONSTANT)},
        ),
        replace(graph, outputs=("h", "y")),
        replace(graph, gradients={"v": "h"}),
    ]
    assert len({canonical_digest(g) for g in (graph, *others)}) == 6
