"""Degrees of a plan: by what its axes do, never by how many devices there are."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from exporters import megatron
from ir.degrees import Degrees
from ir.graph import Op, OpGraph
from ir.ops import OpView, lookup
from ir.plan import Plan
from ir.plan_degrees import degrees_of
from planner.request import SearchRequest
from planner.search import search
from planner.whatif.tasks import outline_of
from tests.builders import attention_block, mlp
from topology.catalogue import named_cluster

BATCH, TOKENS = 4, 128


def planned(graph: OpGraph, devices: int = 16, **change: object) -> Plan:
    asked = SearchRequest(target="generic", **change)  # type: ignore[arg-type]
    return search(graph, named_cluster("dgx-h100", devices), asked)


def laid_out(axes: dict[str, tuple[int, str]]) -> Plan:
    """A plan on these axes, each of so many devices, that split batch, tokens, or the weights."""
    plan = planned(replace(attention_block(batch=BATCH), batch=BATCH))
    uses = {axis: use for axis, (_, use) in axes.items()}
    pairs = zip(plan.graph.ops, plan.operators, strict=True)
    operators = tuple(replace(node, split=split_of(plan.graph, op, uses)) for op, node in pairs)
    mesh = tuple((axis, size, 0) for axis, (size, _) in axes.items())
    tensors = tuple(replace(t, used=t.layout) for t in plan.tensors)
    return replace(plan, mesh=mesh, operators=operators, tensors=tensors, recomputed=())


def split_of(graph: OpGraph, op: Op, uses: dict[str, str]) -> tuple[tuple[str, int], ...]:
    """Factors by their sizes: of width 512 are rows and columns of weights, eight are heads."""
    sizes = lookup(op.kind).rule(OpView(op, graph)).sizes
    of = {"batch": (BATCH,), "tokens": (TOKENS,), "heads": (512, 8)}

    def factor(use: str) -> int:
        return next((i for i, size in enumerate(sizes) if size in of[use]), -1)

    return tuple((axis, factor(use)) for axis, use in uses.items())


@pytest.mark.parametrize(
    ("axes", "wanted"),
    [
        ({"a": (4, "batch"), "b": (4, "tokens")}, Degrees(dp=4, cp=4)),
        ({"a": (2, "batch"), "b": (8, "heads")}, Degrees(dp=2, tp=8)),
        ({"a": (2, "batch"), "b": (2, "tokens"), "c": (4, "heads")}, Degrees(dp=2, cp=2, tp=4)),
        ({"a": (16, "tokens")}, Degrees(cp=16)),
    ],
)
def test_each_axis_counts_as_what_it_splits(
    axes: dict[str, tuple[int, str]], wanted: Degrees
) -> None:
    """Batch, tokens and weights are told apart, whatever their order."""
    plan = laid_out(axes)
    assert replace(degrees_of(plan), zero=0) == wanted
    assert outline_of(plan).startswith(str(degrees_of(plan)))


@pytest.mark.parametrize("devices", [1, 8, 16])
@pytest.mark.parametrize("batch", [1, 4, 16])
def test_degrees_multiply_to_the_devices_and_none_exceeds_the_batch(
    devices: int, batch: int
) -> None:
    for graph in (attention_block(batch=batch), mlp(2, batch=batch)):
        found = degrees_of(planned(graph, devices))
        parts = (found.tp, found.cp, found.dp, found.pp, found.positions, found.repeated)
        assert math.prod(parts) == devices
        assert found.dp <= batch


def test_context_parallelism_that_is_asked_for_is_called_so() -> None:
    """One sample cannot be split by the batch: what `data` counted were its tokens."""
    plan = planned(attention_block(batch=1, rows=4096), 8, context_parallel="8")
    assert degrees_of(plan).dp == 1
    assert degrees_of(plan).cp == 8


def test_megatron_gets_the_same_degrees() -> None:
    axes = {"a": (2, "batch"), "b": (2, "tokens"), "c": (4, "heads")}
    plan = laid_out(axes)
    found, text = degrees_of(plan), megatron.to_arguments(plan)
    assert f"--tensor-model-parallel-size {found.tp}\n" in text
    assert f"--context-parallel-size {found.cp}\n" in text
    assert f"--micro-batch-size {BATCH // found.dp}\n" in text


def test_degrees_are_written_as_layouts_are() -> None:
    assert str(Degrees(tp=8, pp=4, vpp=2, dp=2, ep=4, zero=1)) == "tp=8,pp=4,vpp=2,dp=2,ep=4,zero=1"
