"""Keys and values that go round: what of it is seen, and that all that follows agrees."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costmodel.collectives import Collective, CollectiveModel
from costmodel.redistribution import UNREACHABLE_S
from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from exporters.formats import FORMATS
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from planner.explain.plan_problem import problem_of
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered
from planner.pipeline.configuration import solved
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration
from planner.repricing.other_machine import repriced
from planner.request import SearchRequest
from tests.builders import attention_block
from topology.catalogue import named_cluster

CLUSTER = named_cluster("dgx-h100", 8)
LONG = 65_536


def whole(rows: int = LONG, **asked: Any) -> Plan:
    fixed = {"target": "generic", "pipeline": "off", "micro_batch": "1", "context_parallel": "8"}
    request = SearchRequest(global_batch=2, **{**fixed, **asked})
    return search_pipeline(attention_block(batch=2, rows=rows, width=128), CLUSTER, request)


def lowered(rows: int, links: float, **asked: Any) -> Lowered:
    request = SearchRequest(global_batch=2, pipeline="off", micro_batch="1", **asked)
    machine = CLUSTER.with_bandwidth("card", links)
    task = PipelineSearch(attention_block(batch=2, rows=rows, width=128), machine, request)
    return (
        solved(task, Configuration(1, 1, 2), (task.true_micro(1).segments.count,)).groups[0].lowered
    )


@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize(("rows", "links"), [(64, 1.0), (4096, 0.1), (LONG, 1.0)])
def test_every_pair_takes_what_is_less_and_its_messages_sum_to_it(
    rows: int, links: float, target: str
) -> None:
    plain = lowered(rows, links, target=target)
    ring = lower(plain.liveness, replace(plain.setting, ring_attention=True))
    mesh, chip = plain.setting.mesh, plain.setting.cluster.chip
    model = CollectiveModel(plain.setting.cluster, mesh)
    seen = 0
    for number, (edge, new) in enumerate(zip(plain.edges, ring.edges, strict=True)):
        old_s = plain.problem.edge_tables[plain.problem.edge_table_of[number]].time_s
        new_s = ring.problem.edge_tables[ring.problem.edge_table_of[number]].time_s
        node = plain.nodes[edge.target]
        if node.candidates is None or edge.operand not in {1, 2} or "attention" not in node.name:
            assert np.array_equal(old_s, new_s)
            continue
        nbytes = plain.liveness.graph.tensors[edge.tensor].nbytes
        for row in range(len(old_s)):
            own = plain.flow(edge, row, 0).source.forward
            for column in range(old_s.shape[1]):
                at = node.row(column)
                read = plain.flow(edge, row, column).target.forward
                query = node.candidates.operands[0]
                assert query is not None
                axes = query.states[query.of[at]].forward.dims[2]
                best_s = old_s[row, column]
                same = own.dims[:2] + own.dims[3:] == read.dims[:2] + read.dims[3:]
                if axes and same and own.dims[2] == axes and not own.partial and not read.partial:
                    p = math.prod(mesh.sizes[a] for a in axes)
                    size = nbytes / math.prod(own.shards(mesh.sizes))
                    send_s = float(model.time_s(Collective.POINT_TO_POINT, size, axes))
                    half_s = [float(t[at]) / p / 2 for t in
                              (node.candidates.forward_s, node.candidates.backward_s)]  # fmt: skip
                    starts_s = 2 * (p - 1) * chip.launch_latency_s / 2
                    found_s = (
                        starts_s
                        + send_s
                        + (p - 1)
                        * (max(0.0, send_s - half_s[0]) + max(0.0, 2 * send_s - half_s[1]))
                    )
                    if best_s < UNREACHABLE_S:
                        best_s = min(best_s, found_s)
                        seen += found_s < old_s[row, column]
                assert new_s[row, column] == pytest.approx(best_s, rel=1e-9)
                if best_s < UNREACHABLE_S:
                    moves = ring.transfers(ring.flow(new, row, column))
                    told_s = sum(move.step.time_s for move in moves)
                    assert told_s == pytest.approx(best_s, rel=1e-9, abs=1e-15)
    assert bool(seen) == (rows > 64)


def test_a_long_context_is_faster_by_what_computation_hides() -> None:
    gathered, round_ = whole(), whole(ring_attention="auto")
    assert round_.estimate.step_time_s < 0.99 * gathered.estimate.step_time_s
    assert plan_from_json(plan_to_json(round_)) == round_
    own = round_.estimate.time_by_cause
    assert sum(own.values()) == pytest.approx(round_.estimate.step_time_s)
    alone = simulate_plan(round_, Effects(overlap=False)).step_s
    assert alone == pytest.approx(round_.estimate.step_time_s, rel=1e-6)
    assert any("ring attention where that is faster" in note for note in round_.notes)
    assert any("gathered for it" in note for note in gathered.notes)


def test_what_a_ring_hides_is_not_hidden_again() -> None:
    """What is gathered takes its turn among the kernels, and what a ring leaves exposed too."""
    for plan in (whole(), whole(ring_attention="auto")):
        found = simulate_plan(plan, Effects()).account.communication
        assert not any(c.hidden_s for c in found if c.cause == "forward")
        told_s = sum(c.time_s for c in plan.collectives if c.cause == "forward")
        total_s = sum(c.exposed_s + c.hidden_s for c in found if c.cause == "forward")
        assert total_s == pytest.approx(told_s, rel=1e-9)


@pytest.mark.parametrize("ring", ["off", "auto"])
@pytest.mark.parametrize("zero", ["0", "1"])
def test_what_a_block_gathers_again_is_simulated(ring: str, zero: str) -> None:
    plan = whole(4096, recompute="full", zero=zero, ring_attention=ring)
    assert any(c.cause == "forward" and c.backward for c in plan.collectives)
    alone = simulate_plan(plan, Effects(overlap=False)).step_s
    assert alone == pytest.approx(plan.estimate.step_time_s, rel=1e-9)


def test_where_it_gains_nothing_the_plan_is_the_same() -> None:
    short, asked = whole(64), whole(64, ring_attention="auto")
    assert asked.estimate == short.estimate
    assert asked.collectives == short.collectives


def test_the_part_of_a_plan_is_priced_again_as_it_was() -> None:
    plan = whole(ring_attention="auto")
    assert problem_of(plan, 0).lowered.nodes


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_on_another_machine_another_share_is_hidden(recompute: str) -> None:
    """The same machine gives the same plan; with slower links it is as if it had been planned."""
    plan = whole(4096, ring_attention="auto", recompute=recompute, zero="0")
    same = repriced(plan, CLUSTER)
    assert same.estimate.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=1e-9)
    for factor in (0.1, 2.0):
        other = CLUSTER.with_bandwidth("card", factor)
        there = repriced(plan, other).collectives
        lowered_there = problem_of(repriced(plan, other), 0, repriced=True)
        told_s = sum(c.time_s for c in there if c.operand in {1, 2} and "attention" in c.operator)
        own_s = 0.0
        low, choice = lowered_there.lowered, lowered_there.choice
        for edge in low.edges:
            if edge.operand in {1, 2} and "attention" in low.nodes[edge.target].name:
                flow = low.flow(edge, choice[edge.source], choice[edge.target])
                own_s += sum(move.step.time_s for move in low.transfers(flow))
        assert told_s == pytest.approx(2 * own_s, rel=1e-6)
        assert told_s > 0


def test_a_file_for_a_framework_tells_what_it_does_not_say() -> None:
    plan = whole(ring_attention="auto")
    assert any("ring attention" in loss for loss in FORMATS["torch"].losses(plan, None))
    assert not any("ring attention" in loss for loss in FORMATS["torch"].losses(whole(), None))
