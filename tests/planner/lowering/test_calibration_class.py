"""Which networks published runs of transformers speak of, and why they do not of others."""

from __future__ import annotations

import pytest

from importers.hf_config import import_config
from ir.graph import OpGraph
from ir.normalise import with_dtype
from ir.ops import OpView, lookup
from ir.published import DENSE, ROUTED
from planner.lowering.calibration_class import compared
from planner.pipeline.preparation import prepare
from planner.request import SearchRequest
from tests.builders import GraphBuilder, mlp
from tests.importers.configurations import EVERY
from topology.catalogue import named_chip, named_cluster

pytestmark = pytest.mark.fast

CHIP = named_chip("h100_sxm_80g")
WIDE = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
HEADS = {"num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 2}


def of(kind: str, **fields: object) -> OpGraph:
    config = {**EVERY[kind], **WIDE, **HEADS, "head_dim": 128, **fields}
    return import_config(config, kind, kind, {"batch": 8, "sequence": 2048})


def said(graph: OpGraph, *, fused: bool = True, factor: float = 1.0) -> tuple[str, str]:
    """Kind of the runs and why there are none, where operators take what their work takes: 400
    TFLOP/s and 2 TB/s."""
    request = SearchRequest(fused_attention=fused)
    ready, _ = prepare(graph, named_cluster("dgx-h100", 8), request)
    forward_s = {}
    for op in ready.ops:
        view = OpView(op, ready)
        moved = sum(ready.tensors[name].nbytes for name in (*op.inputs, *op.outputs) if name)
        flops = lookup(op.kind).flops(view)
        forward_s[op.name] = factor * max(flops / 4e14, moved / 2e12)
    found, why = compared(ready, CHIP, forward_s, {})
    assert (found is None) == bool(why)
    return "" if found is None else found.kind, why


def convolutions(dtype: str) -> OpGraph:
    build = GraphBuilder("net", dtype)
    x = build.input("x", (64, 256, 64, 64))
    for layer in range(4):
        weight = build.weight(f"{layer}.weight", (256, 256, 3, 3))
        x = build.op("Conv", (x, weight), (64, 256, 64, 64), kernel_shape=(3, 3), pads=(1, 1, 1, 1))
        x = build.op("Relu", (x,), (64, 256, 64, 64))
    return build.build(x)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("kind", "runs"), [("llama", DENSE), ("mixtral", ROUTED)])
@pytest.mark.parametrize("fused", [True, False])
def test_transformers_in_16_bits_are_like_runs(
    kind: str, runs: str, dtype: str, fused: bool
) -> None:
    assert said(with_dtype(of(kind), dtype), fused=fused) == (runs, "")


@pytest.mark.parametrize("kind", ["llama", "mixtral"])
def test_transformers_in_other_precisions_are_like_none(kind: str) -> None:
    runs, why = said(of(kind, torch_dtype="float32"))
    assert not runs
    assert why == "100 % of products and attention are not in 16 bits; all of the runs were"


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_networks_of_other_operators_are_like_none(dtype: str) -> None:
    runs, why = said(convolutions(dtype), factor=100)
    assert not runs
    assert why.endswith(" % of the computation is in operators like Conv, which no run had")
    for layers in (2, 8):
        runs, why = said(with_dtype(mlp(layers, 65536, 8192, 32768), dtype))
        assert not runs
        assert "attention is less than 1 % of the computation" in why


def test_short_operators_are_like_none() -> None:
    runs, why = said(of("llama"), factor=1e-3)
    assert not runs
    assert "on average" in why


def test_rows_that_mix_without_softmax_are_like_none() -> None:
    for kind in ("mamba", "nemotron_h"):
        runs, why = said(import_config(EVERY[kind], kind, kind, {"batch": 8, "sequence": 64}))
        assert not runs
        assert why
