"""The model of the demonstration, as it is in the repository."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from importers.onnx import import_onnx
from ir.batch import find_batch, with_batch
from ir.graph import OpGraph
from ir.normalise import normalise
from ir.ops import OpView, check_operators, is_known, lookup

MODEL = Path(__file__).parents[2] / "data" / "models" / "llama3_8b.onnx.gz"


@cache
def llama() -> OpGraph:
    return import_onnx(MODEL)


def test_it_has_eight_billion_parameters() -> None:
    assert sum(t.elements for t in llama().parameters) == 8_030_261_248


def test_every_operator_is_known() -> None:
    assert {op.kind for op in llama().ops if not is_known(op.kind)} == set()


def test_it_has_an_attention_in_each_of_its_32_layers() -> None:
    graph = normalise(llama())
    attentions = [op for op in graph.ops if op.kind == "Attention"]
    assert len(attentions) == 32
    assert len({op.scope for op in attentions}) == 32
    heads = {(OpView(op, graph).dims(0)[1], OpView(op, graph).dims(1)[1]) for op in attentions}
    assert heads == {(32, 8)}
    assert "Softmax" not in {op.kind for op in graph.ops}


def test_its_batch_is_followed() -> None:
    graph = llama()
    assert find_batch(graph) == 1
    wide = normalise(with_batch(graph, 64))
    check_operators(wide)
    assert wide.tensors[wide.outputs[0]].dims[0] == 64


def test_its_arithmetic_is_two_operations_for_each_weight_and_token() -> None:
    """2 N for the products, without the embedding, and 4 s h for each layer's attention.

    Source: Kaplan et al., Scaling Laws for Neural Language Models, arXiv 2001.08361, table 1.
    """
    graph = normalise(llama())
    tokens = 4096
    found = sum(lookup(op.kind).flops(OpView(op, graph)) for op in graph.ops)
    table = max(t.elements for t in graph.parameters)
    weights = sum(t.elements for t in graph.parameters) - table
    wanted = tokens * (2 * weights + 32 * 4 * tokens * 4096)
    assert abs(found / wanted - 1) < 0.01
