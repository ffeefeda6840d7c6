"""The same network from ONNX and from its sizes: the same work, weights, cost and layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from importers.hf_config import import_config
from importers.onnx import import_onnx
from importers.sizes import published
from ir.batch import find_batch, with_batch
from ir.graph import OpGraph
from ir.normalise import normalise
from ir.ops import OpView, lookup
from ir.plan import Plan, PlannedOperator
from planner.request import SearchRequest
from planner.search import search
from topology.catalogue import named_cluster

ROOT = Path(__file__).parents[2]
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
PATIENCE_S = 3600.0
"""A slow machine finds what a fast one finds."""

CASES: Mapping[str, tuple[str, dict[str, Any], dict[str, int]]] = {
    "llama3_8b": ("data/models", LLAMA, {}),
    "gpt2_small": ("tests/data/models", dict(published("gpt2").config), {}),
    "vit_large": ("tests/data/models", dict(published("vit-large").config), {"batch": 8}),
    "mixtral_8x7b": (
        "tests/data/models", dict(published("mixtral-8x7b").config), {"sequence": 2048}
    ),
}  # fmt: skip


@cache
def both(name: str) -> tuple[OpGraph, OpGraph]:
    """The network from ONNX, and from its sizes."""
    folder, config, bind = CASES[name]
    return import_onnx(ROOT / folder / f"{name}.onnx.gz"), import_config(config, name, "", bind)


def flops(graph: OpGraph) -> int:
    ready = normalise(graph)
    return sum(lookup(op.kind).flops(OpView(op, ready)) for op in ready.ops)


@pytest.mark.parametrize("name", CASES)
def test_parameters_and_arithmetic_are_equal(name: str) -> None:
    traced, built = both(name)
    assert sum(t.elements for t in built.parameters) == sum(t.elements for t in traced.parameters)
    assert flops(built) == flops(traced)
    batch = 4 * find_batch(traced)
    assert flops(with_batch(built, batch)) == flops(with_batch(traced, batch))


def planned(graph: OpGraph, devices: int) -> Plan:
    request = SearchRequest(batch=64, time_limit_s=PATIENCE_S)
    return search(graph, named_cluster("atlas-800t-a2", devices), request)


@pytest.mark.parametrize(
    ("name", "devices"),
    [("llama3_8b", 16), ("gpt2_small", 8), ("gpt2_small", 16), ("vit_large", 8),
     ("vit_large", 16)],
)  # fmt: skip
def test_the_plan_is_the_same(name: str, devices: int) -> None:
    first, second = (planned(graph, devices) for graph in both(name))
    assert second.estimate.step_time_s == pytest.approx(first.estimate.step_time_s, rel=1e-6)
    assert second.mesh == first.mesh
    parameters = {t.name for t in both(name)[1].parameters}
    layouts = [
        {t.name.removeprefix("m."): (t.layout, t.used) for t in plan.tensors}
        for plan in (first, second)
    ]
    common = parameters & layouts[0].keys() & layouts[1].keys()
    # A table that is the head too has the name of the one or of the other.
    assert len(common) >= len(parameters) - 1
    assert {n: layouts[1][n] for n in common} == {n: layouts[0][n] for n in common}
    operators = [[_nameless(each) for each in plan.operators] for plan in (first, second)]
    assert operators[0] == operators[1]


def _nameless(operator: PlannedOperator) -> PlannedOperator:
    """Without names; nor the mask of an attention: exporters write one that hides nothing."""
    return replace(operator, name="", scope="", inputs=operator.inputs[:3])


@pytest.mark.parametrize("name", ["llama3_8b", "gpt2_small", "mixtral_8x7b"])
def test_the_normal_form_is_the_same_operator_by_operator(name: str) -> None:
    first, second = (normalise(graph) for graph in both(name))
    assert _work(second) == _work(first)


def _work(graph: OpGraph) -> list[tuple[object, ...]]:
    """What planning sees of every operator in order, without names and views inside composites."""
    tensors = graph.tensors
    return [
        (
            op.label,
            [(tensors[n].dims, tensors[n].dtype, tensors[n].role) for n in op.inputs],
            [tensors[n].dims for n in op.outputs],
            {k: v for k, v in op.attributes.items() if k not in _UNSEEN},
        )
        for op in graph.ops
    ]


_UNSEEN = {"epsilon"}
"""Attributes of which numbers are computed, not of how much work it is."""


def test_latent_attention_and_experts_do_the_same_arithmetic() -> None:
    """The exporter writes keys by scattering into zeros, which is more bytes and no arithmetic."""
    config = dict(published("deepseek-v2-lite").config) | {
        "model_type": "deepseek_v3", "routed_scaling_factor": 2.5, "norm_topk_prob": True,
    }  # fmt: skip
    built = import_config(config, "deepseek", "", {"sequence": 2048})
    traced = import_onnx(ROOT / "tests/data/models/deepseek_v3_lite_16b.onnx.gz")
    assert sum(t.elements for t in built.parameters) == sum(t.elements for t in traced.parameters)
    assert flops(built) == flops(traced)
    count = [sum(op.kind == "ExpertMatMul" for op in normalise(g).ops) for g in (built, traced)]
    assert count == [52, 52]
