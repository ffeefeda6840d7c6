"""Weights are one node each: what is computed from them alone is folded into its readers."""

from __future__ import annotations

import pytest

from ir.graph import OpGraph, Role
from ir.normalise import main_dtype, normalise, with_dtype
from ir.normalise.identities import drop_identities
from ir.normalise.parameters import fold_parameters
from ir.ops import OpView, lookup
from ir.rule import parse_rule
from tests.builders import GraphBuilder

pytestmark = pytest.mark.fast


def folded(graph: OpGraph) -> OpGraph:
    found = fold_parameters(drop_identities(graph))
    found.validate()
    return found


def test_a_transposed_weight_becomes_a_flag_of_the_product() -> None:
    build = GraphBuilder("linear")
    x, w = build.input("x", (4, 8)), build.weight("w", (16, 8))
    turned = build.op("Transpose", (w,), (8, 16), perm=(1, 0))
    found = folded(build.build(build.op("MatMul", (x, turned), (4, 16))))
    assert [(op.kind, op.attributes) for op in found.ops] == [("MatMul", {"trans_b": 1})]
    assert found.tensors["w"].dims == (16, 8)
    rule = lookup("MatMul").rule(OpView(found.ops[0], found))
    wanted = parse_rule("m k, n k -> m n", [(4, 8), (16, 8)], [(4, 16)])
    assert [rule.sizes[f] for f in rule.splittable] == [4, 8, 16]
    assert rule.operands[0] == wanted.operands[0]
    assert rule.operands[1] == wanted.operands[1]
    assert rule.results == wanted.results


def test_two_transposes_are_none() -> None:
    build = GraphBuilder("gemm")
    x, w = build.input("x", (4, 8)), build.weight("w", (8, 16))
    turned = build.op("Transpose", (w,), (16, 8), perm=(1, 0))
    found = folded(build.build(build.op("MatMul", (x, turned), (4, 16), trans_b=1)))
    assert found.ops[0].attributes == {"trans_b": 0}


def test_a_tied_weight_stays_one_parameter() -> None:
    """The table is looked up as it is stored, and multiplied transposed."""
    build = GraphBuilder("tied")
    table = build.weight("table", (100, 8))
    ids = build.input("ids", (4,), "int64")
    x = build.op("Gather", (table, ids), (4, 8), axis=0)
    turned = build.op("Transpose", (table,), (8, 100), perm=(1, 0))
    found = folded(build.build(build.op("MatMul", (x, turned), (4, 100))))
    assert [op.kind for op in found.ops] == ["Gather", "MatMul"]
    assert [(t.name, t.dims) for t in found.parameters] == [("table", (100, 8))]
    assert found.ops[1].attributes == {"trans_b": 1}


def test_a_cast_of_a_weight_goes() -> None:
    build = GraphBuilder("cast")
    x, w = build.input("x", (4, 8)), build.weight("w", (8, 16))
    cast = build.op("Cast", (w,), (8, 16))
    found = folded(build.build(build.op("MatMul", (x, cast), (4, 16))))
    assert [op.kind for op in found.ops] == ["MatMul"]
    assert found.ops[0].inputs == ("x", "w")


def test_a_weight_that_only_a_transpose_reads_is_stored_transposed() -> None:
    build = GraphBuilder("kernel")
    x, w = build.input("x", (4, 8)), build.weight("w", (16, 2, 8))
    turned = build.op("Transpose", (w,), (8, 16, 2), perm=(2, 0, 1))
    y = build.op("Einsum", (x, turned), (4, 16, 2), equation="bi,ioh->boh")
    found = folded(build.build(y))
    assert [op.kind for op in found.ops] == ["Einsum"]
    assert found.tensors["w"].dims == (8, 16, 2)
    assert found.tensors["w"].stored_permutation == (2, 0, 1)
    assert found.tensors["w"].source == "w"


def test_a_transpose_of_a_weight_that_others_read_stays() -> None:
    build = GraphBuilder("shared")
    x, w = build.input("x", (4, 8)), build.weight("w", (8, 4))
    turned = build.op("Transpose", (w,), (4, 8), perm=(1, 0))
    y = build.op("Add", (x, turned), (4, 8))
    z = build.op("MatMul", (y, w), (4, 4))
    found = folded(build.build(z))
    assert [op.kind for op in found.ops] == ["Transpose", "Add", "MatMul"]


def test_a_transposed_weight_that_is_an_output_stays() -> None:
    build = GraphBuilder("output")
    x, w = build.input("x", (4, 8)), build.weight("w", (16, 8))
    turned = build.op("Transpose", (w,), (8, 16), perm=(1, 0))
    y = build.op("MatMul", (x, turned), (4, 16))
    assert [op.kind for op in folded(build.build(y, turned)).ops] == ["Transpose", "MatMul"]


def test_views_that_change_nothing_go_and_others_stay() -> None:
    build = GraphBuilder("views")
    x = build.input("x", (4, 8))
    y = build.op("Identity", (x,), (4, 8))
    y = build.op("Reshape", (y,), (4, 8))
    y = build.op("Expand", (y,), (4, 8))
    y = build.op("Reshape", (y,), (8, 4))
    y = build.op("Pad", (y,), (8, 4), axes=(0,))
    found = drop_identities(build.build(build.op("Relu", (y,), (8, 4))))
    assert [op.kind for op in found.ops] == ["Reshape", "Pad", "Relu"]


def test_an_identity_that_is_an_output_stays() -> None:
    build = GraphBuilder("kept")
    x = build.input("x", (4, 8))
    y = build.op("Relu", (x,), (4, 8))
    z = build.op("Identity", (y,), (4, 8))
    assert [op.kind for op in drop_identities(build.build(z)).ops] == ["Relu", "Identity"]


def test_the_main_type_is_that_of_most_parameters() -> None:
    build = GraphBuilder("mixed")
    x = build.input("x", (4, 8))
    build.tensor("big", (8, 16), Role.PARAMETER, "bfloat16")
    build.tensor("small", (16,), Role.PARAMETER, "float32")
    y = build.op("MatMul", (x, "big"), (4, 16))
    graph = build.build(build.op("Add", (y, "small"), (4, 16)))
    assert main_dtype(graph) == "bfloat16"
    other = with_dtype(graph, "float16")
    assert other.tensors["big"].dtype == "float16"
    assert other.tensors["small"].dtype == "float32"
    assert main_dtype(other) == "float16"


def test_the_type_it_has_changes_nothing() -> None:
    build = GraphBuilder("plain")
    y = build.op("Relu", (build.input("x", (4, 8)),), (4, 8))
    graph = build.build(y)
    assert with_dtype(graph, "float32") is graph
    assert with_dtype(graph, "bfloat16").tensors["x"].dtype == "bfloat16"


def test_normalising_twice_is_normalising_once() -> None:
    build = GraphBuilder("twice")
    x, w = build.input("x", (4, 8)), build.weight("w", (16, 8))
    y = build.op("MatMul", (x, build.op("Transpose", (w,), (8, 16), perm=(1, 0))), (4, 16))
    y = build.op("Mul", (y, build.op("Sigmoid", (y,), (4, 16))), (4, 16))
    once = normalise(build.build(y))
    assert normalise(once) == once
