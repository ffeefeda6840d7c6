"""Backward operators find their forward operators by data flow alone."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from importers.torch_export.fx_program import fx_program
from importers.torch_export.reading import graph_at
from ir.graph import Op, OpGraph
from ir.pairing import backward_operators, pairs
from tests.builders import mlp

REFERENCE = Path(__file__).parents[1] / "data" / "torch" / "reference"
JOINT = ("gpt_small_joint_train", "gpt_small_joint_ep")


@cache
def joint(name: str) -> OpGraph:
    data = gzip.decompress((REFERENCE / f"{name}.fx.json.gz").read_bytes())
    return graph_at(fx_program(json.loads(data), name, name), {})


def by_name(graph: OpGraph) -> dict[str, Op]:
    return {op.name: op for op in graph.ops}


def test_a_graph_without_gradients_has_no_backward_pass() -> None:
    assert backward_operators(mlp(1)) == frozenset()
    assert pairs(mlp(1)) == {}


@pytest.mark.parametrize("name", JOINT)
def test_every_backward_operator_has_a_forward_one(name: str) -> None:
    graph, found = joint(name), pairs(joint(name))
    backward = backward_operators(graph)
    assert set(found) == backward
    assert not set(found.values()) & backward
    gradients = {op.name for op in graph.ops if set(op.outputs) & set(graph.gradients.values())}
    assert gradients <= backward


@pytest.mark.parametrize("name", JOINT)
def test_every_product_has_two_products_of_the_backward_pass(name: str) -> None:
    graph, ops = joint(name), by_name(joint(name))
    found = pairs(graph)
    products = Counter(f for b, f in found.items() if ops[b].kind == "MatMul")
    forward = [o.name for o in graph.ops if o.kind == "MatMul" and o.name not in found]
    assert products == dict.fromkeys(forward, 2)
    for b, f in found.items():
        if ops[b].kind == "MatMul":
            space = [sorted(Counter(_space(graph, ops[n])).items()) for n in (b, f)]
            assert space[0] == space[1]


def _space(graph: OpGraph, op: Op) -> list[int]:
    """Sizes of rows, columns and sum."""
    left, right = (graph.tensors[n].dims for n in op.inputs)
    return [*left, right[-1]]


@pytest.mark.parametrize("name", JOINT)
def test_the_gradient_of_a_weight_belongs_to_a_reader_of_the_weight(name: str) -> None:
    graph, ops = joint(name), by_name(joint(name))
    found, makers = pairs(graph), graph.producers()
    views = {op.outputs[0]: op.inputs[0] for op in graph.ops if op.kind == "Transpose"}
    for weight, gradient in graph.gradients.items():
        reader = ops[found[makers[gradient].name]]
        assert weight in {views.get(n, n) for n in reader.inputs}, weight


@pytest.mark.parametrize("name", JOINT)
def test_backward_operators_are_in_the_modules_of_the_forward_ones(name: str) -> None:
    graph, ops = joint(name), by_name(joint(name))
    assert all(ops[b].scope == ops[f].scope for b, f in pairs(graph).items())
    scopes = {op.scope.partition(".h.")[2] for op in graph.ops}
    assert {"0.attn.c_attn", "0.mlp.c_fc", "1.attn.c_proj", "1.ln_2"} <= scopes
