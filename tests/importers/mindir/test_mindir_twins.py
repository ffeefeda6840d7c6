"""The same network from MindIR and from ONNX is the same problem."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from importers.mindir.reading import import_mindir
from importers.onnx import import_model
from ir.canonical import canonical_digest
from ir.graph import OpGraph
from ir.normalise import normalise
from ir.ops import OpView, lookup
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from tests.importers.mindir.twins import NAMES, TWINS
from topology.catalogue import named_cluster

DATA = Path(__file__).parents[2] / "data" / "mindir"
FAST = SearchRequest(solver="dynamic_programming", time_limit_s=None)


@cache
def graph_of(block: str, form: str) -> OpGraph:
    if form == "onnx":
        return import_model(TWINS[block](), block)
    return import_mindir(DATA / f"{block}.mindir")


@cache
def plan_of(block: str, form: str, devices: int) -> Plan:
    return search(graph_of(block, form), named_cluster("atlas-800t-a2", devices), FAST)


def both(block: str) -> tuple[OpGraph, OpGraph]:
    return graph_of(block, "mindir"), graph_of(block, "onnx")


def flops(graph: OpGraph) -> int:
    ready = normalise(graph)
    return sum(lookup(op.kind).flops(OpView(op, ready)) for op in ready.ops)


def known(name: str) -> str:
    """A parameter's name, as the other network has it."""
    path, _, last = name.rpartition(".")
    return f"{path}.{NAMES.get(last, last)}" if path else last


@pytest.mark.parametrize("block", TWINS)
def test_the_same_work_and_weights(block: str) -> None:
    here, there = both(block)
    assert flops(here) == flops(there)
    weights = [{known(t.name): (t.dims, t.dtype) for t in g.parameters} for g in (here, there)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("block", TWINS)
def test_the_same_hash_of_the_graph(block: str) -> None:
    here, there = (normalise(graph) for graph in both(block))
    assert canonical_digest(here) == canonical_digest(there)


@pytest.mark.parametrize("devices", [8, 16])
@pytest.mark.parametrize("block", TWINS)
def test_the_same_plan(block: str, devices: int) -> None:
    here, there = (plan_of(block, form, devices) for form in ("mindir", "onnx"))
    assert here.estimate.step_time_s == pytest.approx(there.estimate.step_time_s, rel=1e-6)
    assert here.estimate.peak_memory_bytes == pytest.approx(there.estimate.peak_memory_bytes)
    layouts = [
        {known(t.name): (str(t.layout), str(t.used)) for t in p.tensors if t.role == "parameter"}
        for p in (here, there)
    ]
    assert len(layouts[0]) >= 3
    assert layouts[0] == layouts[1]
    inputs = [
        {t.name: str(t.layout) for t in p.tensors if t.role == "input"} for p in (here, there)
    ]
    assert inputs[0] == inputs[1]
    results = [sorted(str(op.outputs) for op in plan.operators) for plan in (here, there)]
    assert results[0] == results[1]


def test_operators_keep_the_full_names_of_mindspore() -> None:
    graph = graph_of("mlp", "mindir")
    names = {op.name: op.scope for op in graph.ops}
    assert names["Default/up-Dense/MatMul-op0"] == "up"
    assert names["Default/relu-ReLU/ReLU-op0"] == "relu"
    products = [op.name for op in graph.ops if op.kind == "MatMul"]
    assert products == ["Default/up-Dense/MatMul-op0", "Default/down-Dense/MatMul-op0"]
