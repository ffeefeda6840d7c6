"""Meta's autoparallel: FSDP where parameters may not be whole, else DDP (`ap_*` of the cases)."""

from __future__ import annotations

from collections import Counter

import pytest

from ir.graph import OpGraph
from ir.layout import Layout
from ir.plan_enums import Cause
from tests.builders import GraphBuilder
from tests.cases import nets
from tests.cases.alpha_beta import machine
from tests.cases.planning import Answer, solved

pytestmark = pytest.mark.fast

DEVICES = 256
"""As in its tests: a mesh of one axis."""


def feed_forward() -> OpGraph:
    """1024 to 4096 and back, 2048 rows on each device."""
    build = GraphBuilder("ffn")
    x = build.input("x", (2048 * DEVICES, 1024))
    x = nets.dense(build, x, "up", 4096, act="Relu", bias=False)
    return nets.squared_error(build, nets.dense(build, x, "down", 1024, bias=False))


def block() -> OpGraph:
    """One transformer block of 48 heads, 8 sequences of 256 on each device."""
    build = GraphBuilder("block")
    x = build.input("x", (8 * DEVICES, 256, 6144))
    return nets.squared_error(build, nets.encoder_layer(build, x, "layer", 48, 24576, bias=False))


def planned(graph: OpGraph, *, sharded: bool) -> Answer:
    at_rest = {t.name: Layout(((0,), *((),) * (len(t.dims) - 1))) for t in graph.parameters}
    cluster = machine((DEVICES,))
    return solved(graph, cluster, inputs="data_parallel", rest=at_rest if sharded else None)


@pytest.mark.parametrize("graph", [feed_forward(), block()], ids=lambda g: str(g.name))
def test_sharded_parameters_are_gathered_for_use(graph: OpGraph) -> None:
    """ap_fsdp_1d"""
    answer = planned(graph, sharded=True)
    weights = [n for n in answer.tensors if n.endswith(".w")]
    for name in weights:
        operator = answer.operators[f"op_{name.removesuffix('.w')}"]
        assert [str(operator.inputs[0])[:7], str(operator.inputs[1])] == ["[axis0,", "[-, -]"]
    found = Counter((c.kind, c.cause) for c in answer.collectives if c.tensor in weights)
    assert found == {
        ("all_gather", Cause.PARAMETER_GATHER): len(weights)
        + len(answer.gathered_twice() & {*weights}),
        ("reduce_scatter", Cause.GRADIENT_SYNC): len(weights),
    }
    assert {c.cause for c in answer.collectives} == {Cause.PARAMETER_GATHER, Cause.GRADIENT_SYNC}


@pytest.mark.parametrize("graph", [feed_forward(), block()], ids=lambda g: str(g.name))
def test_parameters_that_may_be_whole_are_replicated(graph: OpGraph) -> None:
    """ap_ddp_1d"""
    answer = planned(graph, sharded=False)
    parameters = answer.gathered_twice()
    assert not any(answer.tensors[n].layout.dims[0] for n in parameters)
    found = {(c.tensor, c.kind, c.cause) for c in answer.collectives if c.tensor in parameters}
    assert found == {(name, "all_reduce", Cause.GRADIENT_SYNC) for name in parameters}
    assert {c.tensor for c in answer.collectives} == {t.name for t in graph.parameters}
