"""Plans with stages and micro-batches explain themselves as plans of one batch do."""

from __future__ import annotations

import ast
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from ir.plan import Plan
from ir.plan_enums import Cause
from ir.plan_file import plan_from_json, plan_to_json
from ir.plan_stages import part_times, send_times
from planner.candidates.operators import splits_in
from planner.explain import sensitivity, summary, why, why_not, why_tensor
from planner.explain.plan_problem import problem_of, stages_of, step_s
from planner.explain.plan_request import source_of, whole_request_of
from planner.explain.reasons import Subject
from planner.explain.terms import Terms
from planner.lowering.lowered import NodeKind
from planner.pipeline.pipeline_search import search_pipeline
from planner.reduction.restriction import restricted
from planner.request import RequestError, SearchRequest
from planner.requests.search_request import with_restriction
from planner.solvers import Budget, solver_by_name
from tests.builders import mlp
from topology.catalogue import named_cluster

CLUSTER = named_cluster("atlas-800t-a2", 8)
GRAPH = mlp(4, width=1024, hidden=4096)
WAYS: dict[str, dict[str, object]] = {
    "one stage": {"pipeline": "off", "micro_batch": "16"},
    "two stages": {"pipeline": "2", "micro_batch": "16", "interleave": "1"},
    "chunks": {"pipeline": "2", "micro_batch": "16", "interleave": "2"},
    "blocks": {"pipeline": "2", "micro_batch": "16", "recompute": "full", "interleave": "1"},
    "on the host": {"pipeline": "2", "micro_batch": "16", "interleave": "1", "offload": "on"},
    "zero 1": {"pipeline": "2", "micro_batch": "16", "zero": "1", "target": "torch"},
}


def planned(**asked: object) -> Plan:
    request = SearchRequest(global_batch=64, **asked)  # type: ignore[arg-type]
    return search_pipeline(GRAPH, CLUSTER, request)


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return {name: planned(**asked) for name, asked in WAYS.items()}


@pytest.fixture(scope="module")
def staged(plans: dict[str, Plan]) -> Plan:
    return plans["two stages"]


@pytest.mark.parametrize("name", WAYS)
def test_every_part_costs_and_holds_what_the_file_says(plans: dict[str, Plan], name: str) -> None:
    plan = plan_from_json(plan_to_json(plans[name]))
    pipeline = plan.pipeline
    for part in range(pipeline.parts):
        case = problem_of(plan, part)
        sent = math.fsum(sum(send_times(plan, stage)) for stage in stages_of(plan, part))
        work_s = (part_times(plan)[part] - sent) * pipeline.micro_batches
        assert case.plan_answer.cost_s == pytest.approx(work_s, rel=1e-9)
        peaks = [pipeline.stages[stage].peak_memory_bytes for stage in stages_of(plan, part)]
        assert case.plan_answer.peak_bytes == pytest.approx(max(peaks))
        assert case.step_s(work_s) == pytest.approx(plan.estimate.step_time_s, rel=1e-9)
        terms = Terms(case.lowered).of_choice(case.choice)
        assert math.fsum(term.time_s for term in terms) == pytest.approx(work_s, rel=1e-9)
        held = math.fsum(t.host_s for t in plan.parameters if t.stage % pipeline.parts == part)
        told = math.fsum(term.time_s for term in terms if term.what == Cause.HOST)
        assert told == pytest.approx(held, rel=1e-9)


@pytest.mark.parametrize("level", ["0", "2"])
def test_optimizer_state_is_found_where_it_was_planned(level: str) -> None:
    """Even where the same layouts would be cheaper with another stage of ZeRO."""
    request = SearchRequest(
        global_batch=2**16, pipeline="2", micro_batch=str(2**14), interleave="1", zero=level,
        target="torch",
    )  # fmt: skip
    plan = search_pipeline(GRAPH, CLUSTER, request)
    assert {tensor.zero for tensor in plan.parameters} == {int(level)}
    plan = replace(plan, request={**plan.request, "zero": "auto"})
    for part in range(2):
        case = problem_of(plan, part)
        levels = {
            int(node.columns.zero[chosen])
            for node, chosen in zip(case.lowered.nodes, case.choice, strict=True)
            if node.kind is NodeKind.PARAMETER
        }
        assert levels == {int(level)}


@pytest.mark.parametrize("name", WAYS)
def test_an_operator_is_explained_in_its_stage(plans: dict[str, Plan], name: str) -> None:
    plan = plans[name]
    for operator in (plan.operators[0].name, "op_matmul_6"):
        found = why(plan, operator, rivals=2)
        stage = next(op.stage for op in plan.operators if op.name == operator)
        assert found.place is not None
        assert (found.name, found.place.stage) == (operator, stage)
        assert found.step_time_s == pytest.approx(plan.estimate.step_time_s)
        for each in (found.chosen, *found.rivals):
            total = math.fsum(part.time_s for part in each.parts)
            assert total == pytest.approx(each.local_s, rel=1e-9)
        assert all("@" not in n.name + n.tensor for n in found.neighbours)


def test_a_difference_is_that_of_two_solves_of_the_stage(staged: Plan) -> None:
    found = why(staged, "op_matmul_6")
    case = problem_of(staged, found.place.stage if found.place else 0)
    number = case.node_of("op_matmul_6")
    rival = found.rivals[0]
    assert rival.delta_s is not None
    assert rival.step_time_s is not None
    subject = Subject(case, number)
    like = [i for i in range(subject.size) if subject.cuts_text(i) == rival.cuts]
    costs = []
    for own in (np.arange(subject.size), np.array(like)):
        allowed = [np.arange(size) for size in case.posed.problem.sizes]
        allowed[number] = own
        problem = restricted(case.posed.problem, allowed)
        problem = replace(problem, memory_limit_bytes=math.inf)
        costs.append(solver_by_name("portfolio").solve(problem, Budget(), None).cost_s)
    assert rival.delta_s == pytest.approx(costs[1] - costs[0], rel=1e-6, abs=1e-12)
    assert math.fsum(rival.delta_by_cause.values()) == pytest.approx(rival.delta_s, rel=1e-6)
    part = 0 if found.place is None else found.place.stage
    assert rival.step_time_s == pytest.approx(step_s(staged, {part: costs[1]}), rel=1e-6)


def test_where_memory_binds_in_a_stage_too() -> None:
    """A rival costs what two solves of the stage within its memory say."""
    asked = SearchRequest(
        target="torch", global_batch=2**16, pipeline="2", micro_batch=str(2**14), interleave="1"
    )
    free = search_pipeline(GRAPH, CLUSTER, asked)
    limit = free.estimate.peak_memory_bytes * 0.7
    plan = search_pipeline(GRAPH, CLUSTER, replace(asked, memory_limit_bytes=limit))
    case = problem_of(plan, 1)
    every = case.posed.allowed()
    for operator in ("op_matmul_2", "op_matmul_6"):
        found = why(plan, operator, rivals=4)
        assert found.memory is not None
        assert found.memory.is_binding
        number = case.node_of(operator)
        fitting = [rival for rival in found.rivals if rival.delta_s is not None]
        assert fitting
        for rival in fitting:
            held = [*every]
            looks = Subject(case, number).looks
            like = [i for i, look in enumerate(looks) if look == (rival.inputs, rival.outputs)]
            held[number] = np.array(like)
            before, after = (
                solver_by_name("portfolio").solve(problem, Budget(), None)
                for problem in (restricted(case.posed.problem, own) for own in (every, held))
            )
            assert after.is_answer
            delta = after.cost_s - before.cost_s
            assert rival.delta_s == pytest.approx(delta, rel=1e-9, abs=1e-15)
            step = step_s(plan, {1: after.cost_s})
            assert rival.step_time_s == pytest.approx(step, rel=1e-12)


def test_a_tensor_is_found_where_it_is_held(staged: Plan) -> None:
    held = {t.name: t.stage for t in staged.parameters}
    for name in ("layers.0.weight", "layers.3.weight"):
        found = why_tensor(staged, name, rivals=1)
        assert found.place is not None
        assert (found.kind, found.place.stage) == ("parameter", held[name])
    with pytest.raises(RequestError, match="no decision about a tensor 'layer"):
        why_tensor(staged, "layer")
    with pytest.raises(RequestError, match="op_matmul_0"):
        why(staged, "op_matmul_00")


@pytest.mark.parametrize("name", WAYS)
def test_a_summary_accounts_for_the_step(plans: dict[str, Plan], name: str) -> None:
    plan = plans[name]
    found = summary(plan)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["stages"]
    step = plan.estimate.step_time_s
    parts = {stage.part for stage in found.stages}
    for part in parts:
        own = [stage for stage in found.stages if stage.part == part]
        spent = math.fsum(stage.work_s for stage in own) + own[0].waits_s
        assert spent == pytest.approx(step, rel=1e-6)
        assert all(stage.communication_s <= stage.work_s for stage in own)
    counted = math.fsum(op.count for stage in found.stages for op in stage.dearest)
    assert counted <= len(plan.operators)
    for link in found.links:
        assert link.best_s <= link.same_plan_s <= step * (1 + 1e-9)
    assert (len(parts) == 1) == (not any("slowest" in text for text in found.limits))


def test_a_saved_plan_is_searched_again_to_the_byte(plans: dict[str, Plan]) -> None:
    for name in ("two stages", "zero 1"):
        plan = plan_from_json(plan_to_json(plans[name]))
        again = search_pipeline(source_of(plan), CLUSTER, whole_request_of(plan))
        assert plan_to_json(again) == plan_to_json(plan)


@pytest.mark.parametrize("asked", ["tp=4", "dp=2,tp=2", "zero3", "pp=4", "mb=8", "pp=1,tp=8"])
def test_another_way_is_that_of_another_search(asked: str) -> None:
    plan = planned(pipeline="2" if "pp" not in asked else "auto")
    found = why_not(plan, asked)
    request = with_restriction(whole_request_of(plan), asked, "--why-not")
    other = search_pipeline(GRAPH, CLUSTER, request)
    delta = other.estimate.step_time_s - plan.estimate.step_time_s
    assert found.delta_s == pytest.approx(delta, rel=1e-9, abs=1e-15)
    assert math.fsum(each.delta for each in found.time) == pytest.approx(delta, abs=1e-12)


def test_degrees_hold_in_every_stage() -> None:
    request = SearchRequest(global_batch=64, pipeline="2", degrees=(("tp", 2), ("dp", 2)))
    plan = search_pipeline(GRAPH, CLUSTER, request)
    sizes = {name: size for name, size, _ in plan.mesh}
    for tensor in plan.parameters:
        assert tensor.used is not None
        cuts = [math.prod(sizes[axis] for axis in dim) for dim in tensor.used.dims]
        assert math.prod(cuts) == 2
    assert plan.notes[0] == "held to tp=2,dp=2 inside every stage"
    assert why_not(plan, "tp=3").verdict == "impossible"


def test_a_pin_is_answered_in_its_stage(staged: Plan) -> None:
    operator = "op_matmul_2"
    cuts = why(staged, operator, rivals=1).rivals[0].cuts
    found = why_not(staged, f"{operator}={cuts}")
    expected = why(staged, operator, rivals=1).rivals[0]
    assert expected.step_time_s is not None
    assert found.restricted_s == pytest.approx(expected.step_time_s)
    assert found.delta_s is not None
    assert math.fsum(each.delta for each in found.time) == pytest.approx(found.delta_s, abs=1e-12)
    priced = why_not(staged, f"{operator}={cuts}@0.1")
    assert priced.restricted_s is not None
    assert priced.restricted_s <= expected.step_time_s * (1 + 1e-9)


def test_a_pin_holds_in_its_stage_and_is_named() -> None:
    asked: dict[str, object] = {"pipeline": "2", "micro_batch": "16", "interleave": "1"}
    free = planned(**asked)
    operator = "op_matmul_2"
    rival = why(free, operator, rivals=1).rivals[0]
    cuts = next(c for name, c in splits_in(free) if name == operator)
    other = tuple(tuple(map(int, part)) for part in ast.literal_eval(rival.cuts))
    assert cuts[:2] != other
    plan = planned(pins=((operator, other),), **asked)
    assert plan.estimate.step_time_s >= free.estimate.step_time_s
    assert any(note.startswith("pinned by ") for note in plan.notes)
    found = why(plan, operator, cuts=cuts[:2])
    assert found.chosen.cuts == rival.cuts
    assert found.rivals[0].reasons[0].kind == "pin"
    with pytest.raises(RequestError, match="no stage of any pipeline"):
        planned(pins=((operator, ((8, 1), (1, 1))),), **asked)
    with pytest.raises(RequestError, match="nothing_like_it"):
        planned(pins=(("nothing_like_it", ((8, 1), (1, 1))),), **asked)


def test_beyond_its_turns_another_whole_plan_is_better() -> None:
    small = mlp(2, width=1024, hidden=4096)
    plan = search_pipeline(small, CLUSTER, SearchRequest(global_batch=64, pipeline="2"))
    told: list[str] = []
    found = sensitivity(plan, told.append)
    assert [each.quantity for each in found.ranges] == ["bandwidth of card", "batch", "memory"]
    assert told[0].startswith("search 1 of at most ")
    batch = found.ranges[1]
    for turn in filter(None, (batch.below, batch.above)):
        request = replace(whole_request_of(plan), global_batch=round(turn.value))
        best = search_pipeline(source_of(plan), CLUSTER, request)
        assert turn.gain_s is not None
        own_s = best.estimate.step_time_s + turn.gain_s
        assert own_s > best.estimate.step_time_s
