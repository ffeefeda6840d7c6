"""Plans of other tools hold the search, and one that the planner wrote comes back."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from exporters.torch import from_json, to_json
from importers.foreign_plans import ForeignPlan, read_foreign
from ir.graph import OpGraph
from ir.plan import Plan
from planner.constraints.foreign_plans import held_to, layer_scopes, pins_of_layouts
from planner.explain.plan_request import request_of
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.preparation import prepare
from planner.request import RequestError, SearchRequest
from planner.search import search
from tests.builders import attention_block, mlp
from topology.catalogue import named_machine

GRAPH = mlp(3)
CLUSTER = named_machine("atlas-800t-a2").cluster(16)
REQUEST = SearchRequest(target="torch")
READY, _ = prepare(GRAPH, CLUSTER, REQUEST)


def planned(found: ForeignPlan) -> Plan:
    asked, _ = held_to(REQUEST, found, READY, CLUSTER)
    return search(GRAPH, CLUSTER, asked)


def weight_cuts(plan: Plan, rest: bool = False) -> dict[str, int]:
    sizes = {name: size for name, size, _ in plan.mesh}
    return {
        t.name: math.prod(sizes[a] for dim in layout.dims for a in dim)
        for t in plan.parameters
        if (layout := t.layout if rest else t.used) is not None
    }


def test_megatron_without_dp_takes_all_devices() -> None:
    plan = planned(ForeignPlan("Megatron", (("tp", 8),)))
    assert set(weight_cuts(plan).values()) == {8}
    assert "held to tp=8,dp=2" in plan.notes[0]


def test_galvatron_cuts_every_layer_by_its_own_degree() -> None:
    assert layer_scopes(READY) == ("layers.0", "layers.1", "layers.2")
    layers = ((("tp", 8),), (("tp", 2),), (("tp", 1), ("zero3", 1)))
    plan = planned(ForeignPlan("Galvatron", layers=layers))
    assert [*weight_cuts(plan).values()] == [8, 2, 1]
    assert weight_cuts(plan, rest=True)["layers.2.weight"] == 16


def test_placements_hold_the_layout_at_rest() -> None:
    text = json.dumps({"mesh": [2, 8], "placements": {"layers.0.weight": ["Shard(0)", "Shard(1)"]}})
    found = read_foreign(text, "f")
    assert found is not None
    rest = next(t for t in planned(found).parameters if t.name == "layers.0.weight").layout
    assert [len(dim) for dim in rest.dims] == [1, 1]
    assert weight_cuts(planned(found), rest=True)["layers.0.weight"] == 16


def test_what_the_planner_wrote_for_torch_comes_back() -> None:
    plan = search(GRAPH, CLUSTER, REQUEST)
    found = from_json(to_json(plan))
    operands = {op.name: op.operands for op in found.operators}
    pins = pins_of_layouts(READY, operands, found.sizes)
    back = search(GRAPH, CLUSTER, replace(REQUEST, pins=pins))
    assert back.operators == plan.operators
    assert back.estimate.step_time_s == plan.estimate.step_time_s


def test_stages_and_micro_batches_are_taken_over() -> None:
    found = ForeignPlan(
        "Megatron", (("tp", 4), ("pp", 2)), global_batch=64, micro_batch=8, zero=2, left_out=("x",)
    )
    asked, notes = held_to(REQUEST, found, READY, CLUSTER)
    assert notes == ("x of the Megatron plan is left to the planner",)
    plan = search_pipeline(GRAPH, CLUSTER, asked)
    assert (plan.pipeline.parts, plan.pipeline.chunks) == (2, 1)
    # Two replicas of 8 samples each in every stage of 8 devices.
    assert (plan.pipeline.micro_batch, plan.pipeline.micro_batches) == (16, 4)
    assert set(weight_cuts(plan).values()) == {4}
    assert {tensor.zero for tensor in plan.parameters} == {2}


@pytest.mark.fast
def test_a_micro_batch_beside_the_degrees_is_that_of_all_replicas() -> None:
    found = ForeignPlan("Megatron", (("tp", 4), ("pp", 2), ("mb", 32)))
    asked, _ = held_to(replace(REQUEST, batch=128), found, READY, CLUSTER)
    assert (asked.micro_batch, asked.global_batch, asked.batch) == ("32", 128, None)
    assert dict(asked.degrees) == {"tp": 4, "dp": 2}


def test_galvatron_with_stages_and_equal_layers_is_taken_over() -> None:
    layers = ((("tp", 4),),) * 3
    found = ForeignPlan("Galvatron", (("pp", 2),), layers, global_batch=64, micro_batches=8)
    asked, notes = held_to(REQUEST, found, READY, CLUSTER)
    assert (asked.pipeline, asked.micro_batch, asked.global_batch) == ("2", "8", 64)
    assert dict(asked.degrees) == {"tp": 4, "dp": 2}
    assert (asked.stage_starts, notes) == ((), ())


@pytest.mark.parametrize("division", [(1, 2), (2, 1)])
def test_stages_begin_where_galvatron_cut_them(division: tuple[int, int]) -> None:
    layers = ((("tp", 4),), (("tp", 2), ("zero3", 1)), (("tp", 8),))
    found = ForeignPlan(
        "Galvatron", (("pp", 2),), layers, global_batch=64, micro_batches=8, division=division
    )
    asked, notes = held_to(REQUEST, found, READY, CLUSTER)
    plan = search_pipeline(GRAPH, CLUSTER, asked)
    assert notes == ()
    assert weight_cuts(plan) == dict(zip(weight_cuts(plan), (4, 2, 8), strict=True))
    assert [t.zero for t in plan.parameters][1] == 3
    stages = [op.stage for op in plan.operators if op.kind == "MatMul"]
    assert stages == [0] * division[0] + [1] * division[1]
    assert request_of(plan).stage_starts == (f"layers.{division[0]}",)


@pytest.mark.fast
def test_a_stage_cannot_begin_where_nothing_is_before_it() -> None:
    asked = replace(REQUEST, global_batch=64, pipeline="2", stage_starts=("layers.0",))
    with pytest.raises(RequestError, match=r"cannot be cut in front of layers\.0"):
        search_pipeline(GRAPH, CLUSTER, asked)


def test_megatron_cuts_the_context() -> None:
    tokens, _ = prepare(attention_block(), CLUSTER, REQUEST)
    found = ForeignPlan("Megatron", (("tp", 2),), context=2)
    asked, notes = held_to(REQUEST, found, tokens, CLUSTER)
    assert (dict(asked.degrees), asked.context_parallel, notes) == ({"tp": 2, "dp": 4}, "2", ())
    plan = search(attention_block(), CLUSTER, asked)
    sizes = {name: size for name, size, _ in plan.mesh}
    attention = next(op for op in plan.operators if op.kind == "Attention")
    assert attention.inputs[0] is not None
    cuts = [math.prod(sizes[axis] for axis in dim) for dim in attention.inputs[0].dims]
    assert cuts == [4, 2, 2, 1]


def test_megatron_sends_keys_and_values_round_in_a_step_that_is_cut() -> None:
    tokens, _ = prepare(attention_block(), CLUSTER, REQUEST)
    found = ForeignPlan("Megatron", (("tp", 2),), context=2, ring=True)
    asked, notes = held_to(REQUEST, found, tokens, CLUSTER)
    assert (asked.ring_attention, "ring" in notes[0]) == ("off", True)
    asked, notes = held_to(
        replace(REQUEST, batch=32), replace(found, micro_batch=2), tokens, CLUSTER
    )
    assert (asked.ring_attention, asked.micro_batch, notes) == ("auto", "8", ())
    plan = search_pipeline(attention_block(), CLUSTER, asked)
    assert any("ring attention" in note for note in plan.notes)


@pytest.mark.parametrize("found", [
    ForeignPlan("Galvatron", layers=((("tp", 4),),), by_heads=True),
    ForeignPlan("Megatron", (("tp", 1),), heads=4),
])  # fmt: skip
def test_ulysses_cuts_tokens_and_for_attention_heads(found: ForeignPlan) -> None:
    layered = block_of_layers()
    ready, _ = prepare(layered, CLUSTER, REQUEST)
    asked, notes = held_to(REQUEST, found, ready, CLUSTER)
    assert notes == ()
    plan = search(layered, CLUSTER, asked)
    sizes = {name: size for name, size, _ in plan.mesh}
    for op in plan.operators:
        first = op.inputs[0] if op.inputs else None
        if first is not None and op.kind in {"Attention", "MatMul"}:
            cuts = [math.prod(sizes[axis] for axis in dim) for dim in first.dims]
            assert cuts[:2] == [4, 4], op.name
    assert set(weight_cuts(plan).values()) == {1}


def block_of_layers() -> OpGraph:
    """An attention block whose weights say that it is layer 0."""
    graph = attention_block()
    names = {t.name: f"layers.0.{t.name}" for t in graph.parameters}
    tensors = {
        names.get(name, name): replace(tensor, name=names.get(name, name))
        for name, tensor in graph.tensors.items()
    }
    ops = (replace(op, inputs=tuple(names.get(n, n) for n in op.inputs)) for op in graph.ops)
    return graph.with_ops(ops, tensors)


def test_sequence_parallel_is_asked_for_where_there_are_tokens() -> None:
    found = ForeignPlan("Megatron", (("tp", 8),), sequence_parallel=True)
    asked, notes = held_to(REQUEST, found, READY, CLUSTER)
    assert asked.sequence_parallel == "auto"
    assert "sequence parallelism" in notes[0]
    tokens, _ = prepare(attention_block(), CLUSTER, REQUEST)
    asked, notes = held_to(REQUEST, found, tokens, CLUSTER)
    assert (asked.sequence_parallel, notes) == ("on", ())


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (ForeignPlan("Megatron", (("tp", 8), ("pp", 3))), "not groups of 3"),
        (ForeignPlan("Megatron", (("pp", 2),), global_batch=10, micro_batches=4), "multiple of 4"),
        (ForeignPlan("Megatron", (("tp", 5),)), "not groups of 5"),
        (ForeignPlan("Galvatron", layers=((("tp", 8),),)), "1 layers, the model has 3"),
        (ForeignPlan("DTensor", placements=(("w", (0,)),)), "lacks 1"),
        (ForeignPlan("DTensor", placements=(("layers.0.weight", (7,)),)), r"Shard\(7\)"),
        (ForeignPlan("DTensor", placements=(("w", (0,)),), mesh=(8,)), "mesh of 8"),
        (ForeignPlan("DTensor", placements=(("w", (0, 0, 0)),)), "3 placements"),
    ],
)
def test_a_plan_for_something_else_is_refused(found: ForeignPlan, fault: str) -> None:
    with pytest.raises(RequestError, match=fault):
        held_to(REQUEST, found, READY, CLUSTER)
