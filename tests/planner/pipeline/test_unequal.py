"""Stages that differ in their devices: the answer is the best of everything that there is."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from exporters.errors import ExportError
from exporters.formats import FORMATS
from ir.graph import OpGraph
from ir.plan import Pipeline, Plan
from ir.plan_checks import plan_faults
from ir.plan_file import plan_from_json, plan_to_json
from ir.plan_stages import stage_ranks, stage_size
from planner.explain.difference_by_cause import changed_operators
from planner.explain.plan_problem import problem_of
from planner.pipeline.bounds.network import NetworkBounds
from planner.pipeline.chain import StageTable
from planner.pipeline.configuration import solved
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration, divisors
from planner.pipeline.stage_plan import drafted
from planner.pipeline.unequal import UnequalSearch, _Pricing, part_sizes
from planner.repricing.other_machine import repriced
from planner.request import InfeasibleError, RequestError, SearchRequest
from tests.builders import GraphBuilder, mlp
from tests.executors.drawn_stages import drawn_stages
from topology.catalogue import named_cluster
from topology.cluster import Cluster

GENERIC = {"target": "generic", "interleave": "1"}


def machine(devices: int, memory: float | None = None) -> Cluster:
    found = named_cluster("atlas-800t-a2", devices)
    if memory is None:
        return found
    chip = replace(found.chip, memory_bytes=int(memory))
    return replace(found, chip=chip, reserved_memory_bytes=0)


def skewed(first: int, batch: int = 8, width: int = 1024) -> OpGraph:
    """Products of which the first is many times as wide as the others."""
    build = GraphBuilder("skewed")
    x = build.input("x", (batch, width))
    for layer, wide in enumerate((first * width, width, width)):
        up = build.weight(f"up{layer}", (width, wide))
        down = build.weight(f"down{layer}", (wide, width))
        x = build.op("MatMul", (build.op("MatMul", (x, up), (batch, wide)), down), (batch, width))
    return build.build(x)


def pipeline(plan: Plan) -> Pipeline:
    return plan.pipeline


def by_trying_all(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> float:
    """The least step over all sizes of parts in every order, sizes of micro-batch and cuts."""
    task, best = PipelineSearch(graph, cluster, request), math.inf
    sizes = part_sizes(task)
    for micro in divisors(task.batch):
        count = task.true_micro(micro).segments.count
        for stages in range(2, min(count, cluster.devices) + 1):
            rows = itertools.product(sizes, repeat=stages)
            for row in (r for r in rows if sum(r) == cluster.devices):
                own = row if len({*row}) > 1 else ()
                shape = Configuration(stages, micro, task.batch // micro, 1, own)
                for inner in itertools.combinations(range(1, count), stages - 1):
                    found = solved(task, shape, (*inner, count))
                    if found.fits:
                        best = min(best, drafted(found).step_s)
    return best


@pytest.mark.parametrize(("first", "memory"), [(6, None), (6, 0.35e9)])
def test_the_answer_is_that_of_trying_all(first: int, memory: float | None) -> None:
    cluster, graph = machine(4, memory), skewed(first)
    asked = SearchRequest(global_batch=4, stage_meshes="any", **GENERIC)  # type: ignore[arg-type]
    equal = _step_s(graph, cluster, replace(asked, stage_meshes="equal"))
    best = min(by_trying_all(graph, cluster, asked), equal)
    if math.isinf(best):
        with pytest.raises(InfeasibleError):
            search_pipeline(graph, cluster, asked)
        return
    plan = search_pipeline(graph, cluster, asked)
    assert plan.estimate.step_time_s == pytest.approx(best, rel=1e-9)
    assert plan.bound.bound_s <= best * (1 + 1e-9)


def _step_s(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> float:
    try:
        return search_pipeline(graph, cluster, request).estimate.step_time_s
    except InfeasibleError:
        return math.inf


@cache
def planned(**asked: str) -> Plan:
    given: dict[str, Any] = {"stage_meshes": "any", **GENERIC, **asked}
    request = SearchRequest(global_batch=8, **given)
    return search_pipeline(skewed(6), machine(8), request)


def test_a_number_of_stages_that_does_not_divide_the_devices() -> None:
    """The wide layer has half of them; parts lie in a row, the largest first on the machine."""
    plan = planned(pipeline="3", micro_batch="2")
    sizes = [stage_size(plan, stage) for stage in range(3)]
    assert sorted(sizes) == [2, 2, 4]
    assert sizes[0] == 4
    assert sorted(rank for stage in range(3) for rank in stage_ranks(plan, stage)) == list(range(8))
    assert stage_ranks(plan, 0) == (0, 1, 2, 3)
    assert not list(plan_faults(plan))
    assert plan_from_json(plan_to_json(plan)) == plan
    assert "devices" in str(Configuration(3, 2, 4, sizes=(4, 2, 2)))


def test_the_largest_part_lies_in_whole_tiers_wherever_it_stands_in_the_pipeline() -> None:
    plan = drawn_stages(mlp(4, 4, 16, 32), 8, Configuration(3, 4, 3, sizes=(2, 4, 2)), "generic", 0)
    assert [stage_ranks(plan, stage) for stage in range(3)] == [(4, 5), (0, 1, 2, 3), (6, 7)]


def test_a_file_whose_parts_are_not_all_devices_is_refused() -> None:
    plan = planned(pipeline="3", micro_batch="2")
    first, *rest = pipeline(plan).stages
    smaller = replace(rest[-1], mesh=(("card", 1, 0),))
    broken = replace(plan, pipeline=replace(pipeline(plan), stages=(first, *rest[:-1], smaller)))
    assert ("the axes do not multiply to 8 ranks", "mesh") in list(plan_faults(broken))
    turns = replace(plan, pipeline=replace(pipeline(plan), stages=(first, *rest[:1]), chunks=2))
    assert any("one size" in what for what, _ in plan_faults(turns))


def test_a_file_whose_stages_do_not_fit_together_is_refused() -> None:
    plan = planned(pipeline="3", micro_batch="2")
    own = pipeline(plan)
    first, *rest = own.stages
    none_shows = replace(own, stages=(replace(first, mesh=plan.mesh), *rest))
    nowhere = replace(own, sends=(replace(own.sends[0], stage=3), *own.sends[1:]))
    layout = own.sends[0].after
    assert layout is not None
    strange = replace(layout, dims=(("nowhere",), *layout.dims[1:]))
    elsewhere = replace(own, sends=(replace(own.sends[0], after=strange), *own.sends[1:]))
    moved = tuple(replace(t, stage=1) if t.role == "input" else t for t in plan.tensors)
    for broken, place in (
        (replace(plan, pipeline=none_shows), "mesh"),
        (replace(plan, pipeline=nowhere), "pipeline.sends.0"),
        (replace(plan, pipeline=elsewhere), "pipeline.sends.0"),
        (replace(plan, tensors=moved), "tensors"),
    ):
        assert [where for _, where in plan_faults(broken)] == [place]


def test_layouts_of_the_same_axes_on_another_mesh_are_changes() -> None:
    plan = planned(pipeline="3", micro_batch="2")
    own = pipeline(plan)
    halved = [replace(s, mesh=tuple((n, 1, t) for n, _, t in s.mesh)) for s in own.stages]
    other = replace(plan, pipeline=replace(own, stages=tuple(halved)))
    assert changed_operators(plan, other)
    assert not changed_operators(plan, plan)


def test_a_shape_is_solved_once_at_all_its_cuts() -> None:
    asked = SearchRequest(global_batch=4, stage_meshes="any", **GENERIC)  # type: ignore[arg-type]
    task = PipelineSearch(skewed(6), machine(4), asked)
    hunt = UnequalSearch(task, NetworkBounds(task), lambda _: None)
    for priced in hunt.run(None, lambda: math.inf):
        shapes = [item.shape for item in priced]
        assert len({*shapes}) == len(shapes)
        assert all(item.every for item in priced if item.shape.sizes)


@pytest.mark.parametrize(("pipeline", "first"), [("3", 16), ("auto", 16), ("6", 8)])
def test_the_search_begins_where_each_stage_has_a_few_micro_batches(
    pipeline: str, first: int
) -> None:
    request = SearchRequest(
        global_batch=256, pipeline=pipeline, target="generic", stage_meshes="any"
    )
    task = PipelineSearch(mlp(6, 256, 64, 64), machine(8), request)
    hunt = UnequalSearch(task, NetworkBounds(task), lambda _: None)
    (found, *_) = next(hunt.run(None, lambda: math.inf))
    assert found.shape.micro_batch == first
    (found, *_) = next(hunt.run(64, lambda: math.inf))
    assert found.shape.micro_batch == 64


@pytest.mark.fast
def test_ways_to_cut_are_not_all_counted_where_they_are_many() -> None:
    task = PipelineSearch(
        mlp(24, 8, 16, 16),
        machine(16),
        SearchRequest(global_batch=8, target="generic", stage_meshes="any"),
    )
    assert task.is_small
    pricing = _Pricing(task, Configuration(1, 1, 8), (8, 4, 2, 1), small=True)
    count = pricing.micro.segments.count
    table = StageTable(np.zeros((count, count + 1, 4)), (8, 4, 2, 1))
    assert not list(pricing._every(table))


@pytest.mark.parametrize(
    ("asked", "word"),
    [({"target": "mindspore"}, "--target generic"), ({"interleave": "2"}, "--interleave 1")],
)
def test_what_takes_stages_of_one_size_is_refused(asked: dict[str, str], word: str) -> None:
    with pytest.raises(RequestError, match=word):
        planned(**asked)


def test_a_number_of_stages_that_does_not_divide_names_what_makes_it_possible() -> None:
    with pytest.raises(RequestError, match="--stage-meshes any"):
        planned(pipeline="3", stage_meshes="equal")
    with pytest.raises(RequestError, match="does not divide into micro-batches of 3"):
        planned(pipeline="3", micro_batch="3")
    with pytest.raises(RequestError, match="--pipeline auto"):
        search_pipeline(
            skewed(1), machine(7),
            SearchRequest(global_batch=8, stage_meshes="any", pipeline="3", target="generic"),
        )  # fmt: skip
    with pytest.raises(RequestError, match="pieces at most"):
        planned(pipeline="40")


def test_more_freedom_is_never_slower() -> None:
    for first in (1, 4):
        steps = [
            _step_s(skewed(first), machine(8), SearchRequest(global_batch=16, target="generic",
                                                            stage_meshes=choice))
            for choice in ("equal", "any")
        ]  # fmt: skip
        assert steps[1] <= steps[0] * (1 + 1e-9)


def test_parts_are_priced_again_as_planned_here_and_on_faster_links() -> None:
    plan = planned(pipeline="3", micro_batch="2")
    for part in range(3):
        assert problem_of(plan, part).lowered.nodes
    same = repriced(plan, machine(8))
    assert same.estimate.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=1e-9)
    assert same.collectives == plan.collectives
    faster = repriced(plan, machine(8).with_bandwidth("card", 4.0))
    assert faster.estimate.step_time_s < plan.estimate.step_time_s


def test_what_is_sent_between_parts_of_two_sizes_takes_as_long_as_on_the_smaller_one() -> None:
    plan = planned(pipeline="3", micro_batch="2")
    tensor = plan.graph.tensors
    for send in pipeline(plan).sends:
        sizes = [stage_size(plan, stage) for stage in (send.stage - 1, send.stage)]
        assert send.nbytes == pytest.approx(tensor[send.tensor].nbytes / min(sizes))


def test_formats_of_frameworks_with_one_mesh_refuse_such_plans() -> None:
    plan = planned(pipeline="3", micro_batch="2")
    for name in ("mindspore", "megatron"):
        with pytest.raises(ExportError, match="differ in their devices"):
            FORMATS[name].writer(plan, None)
    FORMATS["jax"].writer(plan, None)
