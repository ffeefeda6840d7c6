"""The same network from ONNX and from StableHLO is the same problem."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from importers.onnx import import_model
from importers.stablehlo import import_stablehlo
from ir.canonical import canonical_digest
from ir.graph import OpGraph
from ir.normalise import normalise
from ir.ops import OpView, lookup
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from tests.importers.torch_export.twins import TWINS
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

DATA = Path(__file__).parents[2] / "data" / "jax"
FILES = {
    "mlp": "mlp", "residual": "residual",
    "experts": "experts", "transformer": "transformer",
    "transformer_plain": "transformer", "transformer_einsum": "transformer",
}  # fmt: skip
"""File to its twin; `_plain` is what JAX writes without our first line."""
FAST = SearchRequest(solver="dynamic_programming", time_limit_s=None)


@cache
def graph_of(name: str) -> OpGraph:
    return import_stablehlo(DATA / f"{name}.mlir")


@cache
def twin_of(name: str) -> OpGraph:
    return import_model(TWINS[FILES[name]](), FILES[name])


@cache
def plan_of(name: str, devices: int, *, twin: bool) -> Plan:
    graph = twin_of(name) if twin else graph_of(name)
    return search(graph, named_cluster("atlas-800t-a2", devices), FAST)


def flops(graph: OpGraph) -> int:
    ready = normalise(graph)
    return sum(lookup(op.kind).flops(OpView(op, ready)) for op in ready.ops)


@pytest.mark.parametrize("name", FILES)
def test_the_same_work_and_weights(name: str) -> None:
    here, there = graph_of(name), twin_of(name)
    assert flops(here) == flops(there)
    weights = [{t.name: (t.dims, t.dtype) for t in g.parameters} for g in (here, there)]
    assert weights[0] == weights[1]
    assert [here.tensors[n].dims for n in here.inputs] == [
        there.tensors[n].dims for n in there.inputs
    ]


@pytest.mark.parametrize("name", ["mlp", "experts"])
def test_the_same_hash_of_the_graph(name: str) -> None:
    """Statistics are arguments in JAX, which nobody trains, and constants in the twin."""
    here, there = normalise(graph_of(name)), normalise(twin_of(name))
    assert canonical_digest(here) == canonical_digest(there)


@pytest.mark.parametrize("devices", [8, 16])
@pytest.mark.parametrize("name", FILES)
def test_the_same_plan(name: str, devices: int) -> None:
    here, there = (plan_of(name, devices, twin=twin) for twin in (False, True))
    assert here.estimate.step_time_s == pytest.approx(there.estimate.step_time_s, rel=1e-6)
    assert here.estimate.peak_memory_bytes == pytest.approx(there.estimate.peak_memory_bytes)
    for role in ("parameter", "input"):
        layouts = [
            {t.name: (str(t.layout), str(t.used)) for t in plan.tensors if t.role == role}
            for plan in (here, there)
        ]
        assert layouts[0] == layouts[1]
    results = [sorted([str(r) for r in op.outputs] for op in p.operators) for p in (here, there)]
    assert results[0] == results[1]
