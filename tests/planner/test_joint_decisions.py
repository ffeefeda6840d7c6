"""Recomputation, optimizer sharding, interleaving, shared parameters: each is a real decision."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from costmodel.schedules.closed_form import pipeline_time_s
from costmodel.simulation.step_in_order import in_order_s
from ir.plan import Plan
from ir.plan_enums import Cause
from ir.plan_file import PlanFileError, plan_from_json, plan_to_json
from planner.explain import why_infeasible
from planner.pipeline.configuration import solved
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration, in_flight
from planner.request import InfeasibleError, RequestError, SearchRequest
from tests.builders import GraphBuilder, mlp
from tests.planner.pipeline.test_pipeline_search import machine

WIDE = 4096
RECOMPUTE = ("none", "selective", "full")
ZERO = ("0", "1", "2", "3")


def whole(memory: float | None, layers: int = 4, devices: int = 4, **asked: object) -> Plan:
    request = SearchRequest(global_batch=8, **asked)  # type: ignore[arg-type]
    graph = mlp(layers, batch=8, width=WIDE, hidden=WIDE)
    return search_pipeline(graph, machine(devices, memory), request)


def step_s(memory: float | None, **asked: object) -> float:
    try:
        return whole(memory, **asked).estimate.step_time_s  # type: ignore[arg-type]
    except InfeasibleError:
        return math.inf


FIXED: dict[str, Any] = {"pipeline": "2", "micro_batch": "2", "interleave": "1"}


@pytest.mark.parametrize("target", ["mindspore", "generic"])
@pytest.mark.parametrize("zero", ZERO)
def test_each_stage_of_zero_shares_out_what_it_says(zero: str, target: str) -> None:
    request = SearchRequest(
        global_batch=2**20, pipeline="2", micro_batch=str(2**18), interleave="1", zero=zero,
        target=target,
    )  # fmt: skip
    plan = search_pipeline(mlp(4, hidden=256), machine(4), request)
    assert plan_from_json(plan_to_json(plan)) == plan
    levels = Counter(t.zero for t in plan.parameters)
    assert set(levels) <= {0, int(zero)}
    assert levels[int(zero)]
    assert sum(plan.estimate.time_by_cause.values()) == pytest.approx(plan.estimate.step_time_s)
    for tensor in plan.parameters:
        own = [c for c in plan.collectives if c.tensor == tensor.name]
        gathers = [c for c in own if c.cause == Cause.UPDATED_PARAMETERS]
        scatters = [c for c in own if c.cause == "gradient sync"]
        assert (tensor.states is not None) == (tensor.zero in {1, 2}) == bool(gathers)
        if tensor.zero in {1, 2}:
            assert {c.count for c in gathers} == {1}
            assert {c.count for c in scatters} == ({1} if tensor.zero == 1 else {4})


def test_optimizer_state_in_parts_takes_a_share_of_the_memory_and_of_the_update() -> None:
    """Data parallel over 4: 8 of 12 bytes of state for each element of 4 bytes are shared out."""
    asked = {"pipeline": "off", "micro_batch": "4", "interleave": "1", "recompute": "none"}
    graph = mlp(1, batch=8, width=WIDE, hidden=WIDE)
    task = PipelineSearch(graph, machine(4), SearchRequest(global_batch=8, **asked))  # type: ignore[arg-type]
    found = solved(task, Configuration(1, 4, 2), (task.true_micro(4).segments.count,)).groups[0]
    tables = found.lowered.problem.node_tables
    for node, table in zip(found.lowered.nodes, found.lowered.problem.node_table_of, strict=True):
        if node.kind.value != "parameter" or node.layouts is None:
            continue
        rows = {
            int(level): i
            for i, level in enumerate(node.columns.zero)
            if node.layout(i).forward == node.layout(i).gradient
            and not node.layout(i).forward.split_axes
        }
        weight, gradient, _, moments = (m[[rows[0], rows[1], rows[2]]] for m in
                                        tables[table].memory_bytes)  # fmt: skip
        size = 4 * WIDE * WIDE
        assert weight.tolist() == [size] * 3
        assert gradient.tolist() == [size, size, size / 4]
        assert moments.tolist() == [2 * size, size / 2, size / 2]
        update = tables[table].time_s
        assert update[rows[1]] == update[rows[2]] < update[rows[0]]


@pytest.mark.parametrize("memory", [None, 0.9e9])
def test_what_is_left_open_is_never_worse_than_any_fixed_choice(memory: float | None) -> None:
    best = step_s(memory)
    for recompute, zero in itertools.product(RECOMPUTE, ZERO):
        assert best <= step_s(memory, recompute=recompute, zero=zero) * (1 + 1e-9)
    for chunks in ("1", "2"):
        fixed = step_s(memory, pipeline="2", interleave=chunks)
        assert best <= fixed * (1 + 1e-9)


def test_joint_is_no_worse_than_stages_first_and_layouts_second() -> None:
    """Stages of equally many operators, then the best layouts in each."""
    request = SearchRequest(global_batch=8)
    cluster = machine(4, 1.0e9)
    task = PipelineSearch(mlp(6, batch=8, width=WIDE, hidden=WIDE), cluster, request)
    best = search_pipeline(task.source, cluster, request).estimate.step_time_s
    for shape in task.shapes():
        count = task.true_micro(shape.micro_batch).segments.count
        ends = tuple(round(count * (i + 1) / shape.pieces) for i in range(shape.pieces))
        found = solved(task, shape, ends)
        assert not found.fits or best <= found.step_s * (1 + 1e-9)


def test_blocks_are_computed_again_where_memory_is_short() -> None:
    """Many rows: activations of 4 micro-batches on the way are what does not fit."""
    graph = mlp(6, batch=8, width=256, hidden=16384)
    asked = SearchRequest(
        global_batch=65536, micro_batch="8192", pipeline="2", interleave="1", zero="0"
    )
    roomy = search_pipeline(graph, machine(2), replace(asked, recompute="none"))
    full = search_pipeline(graph, machine(2), replace(asked, recompute="full"))
    assert not any(s.blocks for s in roomy.pipeline.stages)
    assert all(s.blocks for s in full.pipeline.stages)
    assert full.estimate.peak_memory_bytes < roomy.estimate.peak_memory_bytes
    assert full.estimate.step_time_s > roomy.estimate.step_time_s
    again = sum(op.recompute_s for op in full.operators)
    assert 0 < again <= sum(op.compute_s - op.backward_s for op in full.operators)
    assert sum(full.estimate.time_by_cause.values()) == pytest.approx(full.estimate.step_time_s)
    assert plan_from_json(plan_to_json(full)) == full
    between = (full.estimate.peak_memory_bytes + roomy.estimate.peak_memory_bytes) / 2
    tight = search_pipeline(graph, machine(2, between), replace(asked, recompute="auto"))
    assert tight.estimate.peak_memory_bytes <= between
    assert roomy.estimate.step_time_s <= tight.estimate.step_time_s


def test_chunks_take_turns_and_shorten_the_bubble() -> None:
    plan = whole(None, layers=6, pipeline="2", micro_batch="1", interleave="2")
    pipeline = plan.pipeline
    assert (pipeline.schedule, pipeline.chunks, pipeline.parts) == ("interleaved", 2, 2)
    assert len(pipeline.stages) == 4
    assert len(pipeline.sends) == 3
    assert plan.devices == 4
    times = [s.forward_s + s.backward_s + s.once_s / 8 for s in pipeline.stages]
    parts = [sum(times[part::2]) for part in range(2)]
    closed_s = pipeline_time_s(parts, 8, 2)
    assert plan.estimate.step_time_s == in_order_s(pipeline)
    again_s = max(s.once_s for s in pipeline.stages)
    assert closed_s - again_s <= plan.estimate.step_time_s
    assert [s.in_flight for s in pipeline.stages] == list(in_flight(Configuration(2, 1, 8, 2)))
    assert plan_from_json(plan_to_json(plan)) == plan
    with pytest.raises(PlanFileError, match="do not make 3 chunks"):
        plan_from_json(plan_to_json(plan).replace('"chunks": 2', '"chunks": 3'))


def tied() -> GraphBuilder:
    build = GraphBuilder("tied")
    x = build.input("x", (8, WIDE))
    first = build.weight("shared", (WIDE, WIDE))
    for layer in range(3):
        weight = build.weight(f"layers.{layer}.weight", (WIDE, WIDE))
        x = build.op("MatMul", (x, first if layer == 0 else weight), (8, WIDE))
        x = build.op("Relu", (x,), (8, WIDE))
    build.op("MatMul", (x, first), (8, WIDE), name="head")
    del build.tensors["layers.0.weight"]
    return build


def test_a_parameter_of_two_stages_is_held_by_both_and_its_gradient_is_added_up() -> None:
    graph = tied().build("head")
    asked = SearchRequest(
        global_batch=2**20, pipeline="2", micro_batch="65536", interleave="1", zero="0"
    )
    plan = search_pipeline(graph, machine(2), asked)
    (shared,) = plan.pipeline.shared
    assert (shared.tensor, shared.stages) == ("shared", (0, 1))
    assert shared.nbytes == 4 * WIDE * WIDE
    assert 0 < shared.time_s <= min(s.once_s for s in plan.pipeline.stages)
    assert sum(plan.estimate.time_by_cause.values()) == pytest.approx(plan.estimate.step_time_s)
    assert plan_from_json(plan_to_json(plan)) == plan
    names = [t.name for t in plan.parameters]
    assert sorted(names) == sorted({t.name for t in plan.graph.parameters})


@pytest.mark.parametrize(
    ("memory", "asked"),
    [
        (0.4e9, {"layers": 2, "devices": 1}),
        (0.4e9, {"layers": 2, "devices": 1, "zero": "0"}),
    ],
)
def test_the_change_that_is_named_makes_it_possible(
    memory: float, asked: dict[str, object]
) -> None:
    layers, devices = int(str(asked.pop("layers", 4))), int(str(asked.pop("devices", 4)))
    graph = mlp(layers, batch=8, width=WIDE, hidden=WIDE)
    request = SearchRequest(global_batch=8, **asked)  # type: ignore[arg-type]
    with pytest.raises(InfeasibleError) as raised:
        search_pipeline(graph, machine(devices, memory), request)
    found = why_infeasible(
        graph, machine(devices, memory), request, raised.value, lambda more: machine(more, memory)
    )
    assert found.fixes
    for fix in found.fixes:
        change = fix.change
        if change.startswith("without"):
            change = f"{change.split()[1]} auto"
        words = dict(zip(change.split()[::2], change.split()[1::2], strict=True))
        larger = int(words.pop("--devices", devices))
        batch = int(words.pop("--batch", 8))
        named = {option[2:].replace("-", "_"): value for option, value in words.items()}
        asked = {**asked, **named, "global_batch": batch}
        changed = SearchRequest(**asked)  # type: ignore[arg-type]
        assert search_pipeline(graph, machine(larger, memory), changed).estimate.step_time_s > 0


@pytest.mark.parametrize(
    ("asked", "fix"),
    [
        ({"interleave": "8", "pipeline": "2"}, {"interleave": "4"}),
        ({"interleave": "2", "pipeline": "off"}, {"interleave": "1"}),
        ({"interleave": "2", "pipeline": "2", "micro_batch": "8"}, {"interleave": "1"}),
        ({"sequence_parallel": "on"}, {"sequence_parallel": "auto"}),
    ],
)
def test_an_impossible_decision_names_one_that_is_possible(
    asked: dict[str, Any], fix: dict[str, Any]
) -> None:
    with pytest.raises(RequestError) as error:
        whole(None, **asked)
    ((name, value),) = fix.items()
    named = "leave it out" if value == "auto" else f"--{name} {value}"
    assert named in str(error.value).partition("fix: ")[2]
    assert whole(None, **{**asked, **fix}).estimate.step_time_s > 0
