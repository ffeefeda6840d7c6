"""The same network from ONNX, from a `.pt2` archive and as FX JSON is the same problem."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from importers.onnx import import_model
from importers.torch_export import import_torch
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

DATA = Path(__file__).parents[2] / "data" / "torch"
FILES = [(b, f) for b in TWINS for f in (".pt2", ".fx.json") if (DATA / f"{b}{f}").exists()]
FAST = SearchRequest(solver="dynamic_programming", time_limit_s=None)


@cache
def graph_of(block: str, form: str) -> OpGraph:
    if form == ".onnx":
        return import_model(TWINS[block](), block)
    return import_torch(DATA / f"{block}{form}")


@cache
def plan_of(block: str, form: str, devices: int) -> Plan:
    return search(graph_of(block, form), named_cluster("atlas-800t-a2", devices), FAST)


def flops(graph: OpGraph) -> int:
    ready = normalise(graph)
    return sum(lookup(op.kind).flops(OpView(op, ready)) for op in ready.ops)


@pytest.mark.parametrize(("block", "form"), FILES)
def test_the_same_work_and_weights(block: str, form: str) -> None:
    here, there = graph_of(block, form), graph_of(block, ".onnx")
    assert flops(here) == flops(there)
    weights = [{t.name: (t.dims, t.dtype) for t in g.parameters} for g in (here, there)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(("block", "form"), [f for f in FILES if f[0] != "transformer_core"])
def test_the_same_hash_of_the_graph(block: str, form: str) -> None:
    """But for the guard of the softmax, whose zero one of the two files stores as a whole array."""
    here, there = (normalise(graph_of(block, f)) for f in (form, ".onnx"))
    assert canonical_digest(here) == canonical_digest(there)


def test_there_is_a_file_of_every_form() -> None:
    assert len(FILES) == 12


@pytest.mark.parametrize("devices", [8, 16])
@pytest.mark.parametrize(("block", "form"), FILES)
def test_the_same_plan(block: str, form: str, devices: int) -> None:
    here, there = plan_of(block, form, devices), plan_of(block, ".onnx", devices)
    assert here.estimate.step_time_s == pytest.approx(there.estimate.step_time_s, rel=1e-6)
    assert here.estimate.peak_memory_bytes == pytest.approx(there.estimate.peak_memory_bytes)
    layouts = [
        {t.name: (str(t.layout), str(t.used)) for t in plan.tensors if t.role == "parameter"}
        for plan in (here, there)
    ]
    assert layouts[0] == layouts[1]
    inputs = [
        {t.name: str(t.layout) for t in p.tensors if t.role == "input"} for p in (here, there)
    ]
    assert inputs[0] == inputs[1]
    results = [[[str(r) for r in op.outputs] for op in p.operators] for p in (here, there)]
    assert results[0] == results[1]
