"""Parameters of several stages: for MindSpore they lie alike, and all ways to say so agree."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from costmodel.redistribution import UNREACHABLE_S
from exporters.errors import ExportError
from exporters.mindspore.apply import apply_module
from exporters.mindspore.checkpoint import check_strategy, strategy_checkpoint
from ir.graph import OpGraph
from ir.plan import Plan
from planner.explain.plan_problem import problem_of
from planner.lowering.lowered import narrowed
from planner.lowering.parameters import (
    TIED_NOTE,
    common_layouts,
    placements,
    tied_pairs,
    with_tied,
)
from planner.lowering.pieces import Span, pieces_of
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration, in_flight, moments_of_pieces
from planner.request import SearchRequest
from tests.builders import GraphBuilder
from topology.catalogue import named_cluster

BATCH, ROWS, WIDTH, WORDS = 32, 64, 512, 8192


def language_model(layers: int, middle: bool = False) -> OpGraph:
    """Embedding and head share one table; a layer in the middle may read it too."""
    build = GraphBuilder("tied")
    ids = build.input("ids", (BATCH, ROWS), "int64")
    table = build.weight("table", (WORDS, WIDTH))
    x = build.op("Gather", (table, ids), (BATCH, ROWS, WIDTH), axis=0)
    for layer in range(layers):
        if middle and layer == layers // 2:
            x = build.op("MatMul", (x, table), (BATCH, ROWS, WORDS), trans_b=1)
            x = build.op("MatMul", (x, table), (BATCH, ROWS, WIDTH))
        weight = build.weight(f"layers.{layer}.weight", (WIDTH, WIDTH))
        x = build.op("MatMul", (x, weight), (BATCH, ROWS, WIDTH))
        x = build.op("Relu", (x,), (BATCH, ROWS, WIDTH))
    return build.build(build.op("MatMul", (x, table), (BATCH, ROWS, WORDS), trans_b=1))


MODELS = {"ends": language_model(3), "middle": language_model(3, middle=True)}
BASE = SearchRequest(global_batch=BATCH, micro_batch="8", pipeline="2")
ASKED = (
    replace(BASE, interleave="1"), replace(BASE, pipeline="4"), replace(BASE, interleave="2"),
    replace(BASE, zero="1"), replace(BASE, cost="communication"), replace(BASE, cost="mindspore"),
)  # fmt: skip


@functools.cache
def planned(model: str, asked: int) -> Plan:
    return search_pipeline(MODELS[model], named_cluster("atlas-800t-a2", 8), ASKED[asked])


@pytest.mark.parametrize("asked", range(len(ASKED)))
@pytest.mark.parametrize("model", MODELS)
def test_stages_hold_a_parameter_alike_and_every_file_is_written(model: str, asked: int) -> None:
    plan = planned(model, asked)
    (shared,) = plan.pipeline.shared
    assert len(set(shared.layouts)) == 1
    assert len(shared.stages) > 1
    assert check_strategy(plan) == ()
    names = {layout.name for layout in strategy_checkpoint(plan).layouts}
    assert {f"{stage % plan.pipeline.parts}-table" for stage in shared.stages} <= names
    assert "STAGES" in apply_module(plan)
    assert TIED_NOTE in plan.notes
    assert plan.bound.bound_s <= plan.estimate.step_time_s


def test_a_table_that_stages_cut_otherwise_is_refused_in_every_way() -> None:
    plan = planned("ends", 0)
    head = plan.operators[-2]
    assert head.kind == "MatMul"
    split = tuple((axis, -1 if factor >= 0 else 2) for axis, factor in head.split)
    ops = (*plan.operators[:-2], replace(head, split=split), plan.operators[-1])
    unlike = replace(plan, operators=ops)
    for way in (strategy_checkpoint, apply_module):
        with pytest.raises(ExportError, match="reads it as"):
            way(unlike)


@pytest.mark.parametrize("model", MODELS)
def test_the_best_is_that_of_the_best_common_layout(model: str) -> None:
    """The edges between the stages forbid what differs, and nothing else."""
    task, shape = (
        PipelineSearch(MODELS[model], named_cluster("atlas-800t-a2", 8), ASKED[0]),
        Configuration(2, 8, 4),
    )
    micro = task.true_micro(8)
    cut = micro.cuts[len(micro.cuts) // 2]
    spans = [Span(0, cut.position), Span(cut.position, len(micro.graph.ops))]
    moments = moments_of_pieces(shape, (0, 1))
    pieces = pieces_of(micro.liveness, micro.by_position, spans, (), moments)
    setting = task.setting(micro, *task.stage_machine(shape), shape.micro_batches)
    setting = replace(setting, in_flight=tuple(in_flight(shape)), memory_limit_bytes=np.inf)
    lowered = task.lowered(pieces, setting)
    ((first, second),) = tied_pairs(lowered)
    placed = [placements(lowered.nodes[number]) for number in (first, second)]
    free = task.solve(lowered.problem)
    best = np.inf
    for place in placed[0]:
        allowed = {
            node: np.flatnonzero([own == place for own in each])
            for node, each in zip((first, second), placed, strict=True)
        }
        if all(map(len, allowed.values())):
            found = task.solve(narrowed(lowered, allowed).problem)
            best = min(best, found.cost_s)
    tied = with_tied(lowered)
    found = task.solve(tied.problem)
    assert found.choice is not None
    assert free.cost_s <= found.cost_s == pytest.approx(best, rel=1e-12)
    assert best < UNREACHABLE_S
    assert len(common_layouts(tied, found.choice)) == 1


def test_explain_does_not_offer_what_other_stages_forbid() -> None:
    plan = planned("ends", 0)
    for part in range(plan.pipeline.parts):
        holds = [hold.text for hold in problem_of(plan, part).posed.holds]
        assert "one layout of table in stages 0 and 1" in holds


def test_other_targets_lay_out_every_stage_as_they_like() -> None:
    request = replace(BASE, target="generic")
    plan = search_pipeline(MODELS["ends"], named_cluster("atlas-800t-a2", 8), request)
    assert TIED_NOTE not in plan.notes
