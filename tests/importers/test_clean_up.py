"""What tracers leave behind is cleaned up, and nothing else is touched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from importers.clean_up import cleaned, without_duplicates
from ir.graph import Op, OpGraph, Role, Tensor
from tests.importers.imported import run_graph

pytestmark = pytest.mark.fast

Rows = list[tuple[str, tuple[str, ...], str, tuple[int, ...], dict[str, Any]]]


def graph_of(rows: Rows, outputs: tuple[str, ...], **weights: tuple[int, ...]) -> OpGraph:
    """A graph of single-result operators on an input `x` of 2 x 3 x 4 x 5."""
    table = {"x": Tensor("x", (2, 3, 4, 5), "float32", Role.INPUT)}
    table |= {n: Tensor(n, d, "float32", Role.PARAMETER) for n, d in weights.items()}
    ops = []
    for kind, inputs, name, dims, attributes in rows:
        table[name] = Tensor(name, dims, "bool" if kind in {"Equal", "Not"} else "float32")
        ops.append(Op(f"op_{name}", kind, inputs, (name,), attributes))
    graph = OpGraph("g", table, tuple(ops), ("x",), outputs)
    graph.validate()
    return graph


def same_numbers(before: OpGraph, after: OpGraph) -> None:
    after.validate()
    draw = np.random.default_rng(0)
    values = {
        n: draw.uniform(-1, 1, t.dims)
        for n, t in before.tensors.items()
        if t.role is not Role.ACTIVATION
    }
    for a, b in zip(run_graph(before, values), run_graph(after, values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def kinds(graph: OpGraph) -> list[str]:
    return [op.kind for op in graph.ops]


TURN: dict[str, Any] = {"perm": (0, 2, 1, 3)}


def test_equal_operators_are_one() -> None:
    graph = graph_of(
        [
            ("Transpose", ("x",), "a", (2, 4, 3, 5), TURN),
            ("Transpose", ("x",), "b", (2, 4, 3, 5), TURN),
            ("Softmax", ("a",), "c", (2, 4, 3, 5), {"axis": 3}),
            ("Softmax", ("b",), "d", (2, 4, 3, 5), {"axis": 3}),
            ("Softmax", ("b",), "e", (2, 4, 3, 5), {"axis": 2}),
            ("Sum", ("c", "d", "e"), "y", (2, 4, 3, 5), {}),
        ],
        ("y",),
    )
    found = without_duplicates(graph)
    assert kinds(found) == ["Transpose", "Softmax", "Softmax", "Sum"]
    same_numbers(graph, found)


@pytest.mark.parametrize("kind", ["RandomNormalLike", "Dropout", "custom::twist", "Relu"])
def test_draws_unknown_and_fusible_operators_stay_apart(kind: str) -> None:
    rows: Rows = [(kind, ("x",), n, (2, 3, 4, 5), {}) for n in ("a", "b")]
    graph = graph_of([*rows, ("Add", ("a", "b"), "y", (2, 3, 4, 5), {})], ("y",))
    assert len(without_duplicates(graph).ops) == 3


def test_a_result_of_the_graph_keeps_its_operator() -> None:
    rows: Rows = [("Softmax", ("x",), n, (2, 3, 4, 5), {"axis": 3}) for n in ("a", "b")]
    assert len(without_duplicates(graph_of(rows, ("a", "b"))).ops) == 2


def test_moves_one_behind_the_other_are_one_or_none() -> None:
    graph = graph_of(
        [
            ("Transpose", ("x",), "a", (4, 2, 3, 5), {"perm": (2, 0, 1, 3)}),
            ("Transpose", ("a",), "b", (2, 3, 4, 5), {"perm": (1, 2, 0, 3)}),
            ("Reshape", ("b",), "c", (6, 20), {}),
            ("Reshape", ("c",), "d", (120,), {}),
            ("Neg", ("d",), "y", (120,), {}),
        ],
        ("y",),
    )
    found = cleaned(graph)
    assert kinds(found) == ["Reshape", "Neg"]
    same_numbers(graph, found)


def test_a_flatten_has_one_shape_alone() -> None:
    """Unlike a reshape it cannot join trailing dimensions only, nor what another one left."""
    graph = graph_of(
        [
            ("Flatten", ("x",), "a", (24, 5), {"axis": 3}),
            ("Flatten", ("a",), "b", (1, 120), {"axis": 0}),
            ("Flatten", ("x",), "c", (2, 60), {"axis": 1}),
            ("MatMul", ("c", "w"), "y", (2, 8), {}),
        ],
        ("b", "y"),
        w=(60, 8),
    )
    assert cleaned(graph).ops == graph.ops


def test_products_on_merged_rows_are_products_on_rows() -> None:
    graph = graph_of(
        [
            ("Reshape", ("x",), "rows", (24, 5), {}),
            ("MatMul", ("rows", "w"), "product", (24, 7), {}),
            ("Add", ("product", "bias"), "sum", (24, 7), {}),
            ("Reshape", ("sum",), "y", (2, 3, 4, 7), {}),
            ("Neg", ("y",), "z", (2, 3, 4, 7), {}),
        ],
        ("z",),
        w=(5, 7),
        bias=(7,),
    )
    found = cleaned(graph)
    assert kinds(found) == ["MatMul", "Add", "Neg"]
    assert found.tensors[found.ops[0].outputs[0]].dims == (2, 3, 4, 7)
    same_numbers(graph, found)


def test_products_of_merged_heads_are_products_of_heads() -> None:
    graph = graph_of(
        [
            ("Transpose", ("x",), "keys", (2, 3, 5, 4), {"perm": (0, 1, 3, 2)}),
            ("Reshape", ("x",), "a", (6, 4, 5), {}),
            ("Reshape", ("keys",), "b", (6, 5, 4), {}),
            ("MatMul", ("a", "b"), "c", (6, 4, 4), {}),
            ("Reshape", ("c",), "d", (2, 3, 4, 4), {}),
            ("Softmax", ("d",), "y", (2, 3, 4, 4), {"axis": 3}),
        ],
        ("y",),
    )
    found = cleaned(graph)
    assert kinds(found) == ["Transpose", "MatMul", "Softmax"]
    same_numbers(graph, found)


def test_a_matrix_is_not_repeated_for_every_batch() -> None:
    graph = graph_of(
        [
            ("Reshape", ("x",), "rows", (6, 4, 5), {}),
            ("Expand", ("w",), "wide", (6, 5, 7), {}),
            ("MatMul", ("rows", "wide"), "y", (6, 4, 7), {}),
        ],
        ("y",),
        w=(5, 7),
    )
    found = cleaned(graph)
    assert "Expand" not in kinds(found)
    same_numbers(graph, found)


def test_merged_rows_that_meet_something_else_stay() -> None:
    """A tensor of all rows has no place beside rows that are apart."""
    graph = graph_of(
        [
            ("Reshape", ("x",), "rows", (24, 5), {}),
            ("MatMul", ("rows", "w"), "product", (24, 7), {}),
            ("Add", ("product", "each"), "y", (24, 7), {}),
        ],
        ("y",),
        w=(5, 7),
        each=(24, 7),
    )
    found = cleaned(graph)
    same_numbers(graph, found)
    assert found.tensors["y"].dims == (24, 7)


def test_a_traced_training_step_keeps_its_merged_rows() -> None:
    graph = graph_of(
        [
            ("Reshape", ("x",), "rows", (24, 5), {}),
            ("MatMul", ("rows", "w"), "product", (24, 7), {}),
            ("Reshape", ("product",), "y", (2, 3, 4, 7), {}),
            ("Neg", ("w",), "g", (5, 7), {}),
        ],
        ("y", "g"),
        w=(5, 7),
    )
    assert kinds(cleaned(replace(graph, gradients={"w": "g"}))) == kinds(graph)


def test_the_guard_of_a_softmax_asks_the_probabilities() -> None:
    dims, row = (2, 3, 4, 5), (2, 3, 4, 1)
    graph = graph_of(
        [
            ("Equal", ("x", "low"), "hidden", dims, {}),
            ("Not", ("hidden",), "seen", dims, {}),
            ("Cast", ("seen",), "number", dims, {}),
            ("ReduceMax", ("number",), "any", row, {"axes": (3,)}),
            ("Equal", ("any", "low"), "none", row, {}),
            ("Softmax", ("x",), "chance", dims, {"axis": 3}),
            ("Where", ("none", "low", "chance"), "y", dims, {}),
        ],
        ("y",),
        low=(1,),
    )
    assert kinds(cleaned(graph)) == ["Softmax", "IsNaN", "Where"]
