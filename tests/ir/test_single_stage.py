"""A plan of one batch on one mesh is a pipeline of one stage, which sums up its parts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ir.plan import SINGLE, PipelineStage, Plan
from ir.plan_enums import Schedule
from ir.plan_file import PlanFileError, plan_from_json, plan_to_json
from ir.plan_stages import retimed, stage_plan, stage_times
from tests.plans import tiny_plan


@pytest.fixture
def plan() -> Plan:
    made = tiny_plan()
    return plan_from_json(plan_to_json(replace(made, digest=made.graph.digest())))


def test_the_only_stage_is_the_plan(plan: Plan) -> None:
    pipeline = plan.pipeline
    (stage,) = pipeline.stages
    assert pipeline.is_single
    assert (pipeline.parts, pipeline.chunks, pipeline.micro_batches) == (1, 1, 1)
    assert (pipeline.micro_batch, pipeline.global_batch) == (plan.graph.batch, plan.batch)
    assert (stage.start, stage.end, stage.in_flight) == (0, len(plan.operators), 1)
    assert stage.peak_memory_bytes == plan.estimate.peak_memory_bytes
    spent_s = [op.compute_s for op in plan.operators] + [c.time_s for c in plan.collectives]
    assert stage.forward_s + stage.backward_s + stage.once_s == pytest.approx(sum(spent_s))


def test_its_times_are_those_of_any_stage(plan: Plan) -> None:
    (stage,), found = plan.pipeline.stages, stage_times(plan, 0)
    assert (stage.forward_s, stage.backward_s) == pytest.approx((found.forward_s, found.backward_s))
    assert (stage.once_s, stage.update_s) == pytest.approx((found.once_s, found.last_s))
    assert retimed(plan) == plan
    assert not any(item.cause == "gradient sync" for item in stage_plan(plan, 0).collectives)


def test_it_follows_what_a_plan_becomes(plan: Plan) -> None:
    slower = tuple(replace(op, compute_s=2 * op.compute_s) for op in plan.operators)
    (before,), (after,) = plan.pipeline.stages, replace(plan, operators=slower).pipeline.stages
    assert after.forward_s > before.forward_s


def test_a_file_has_no_pipeline_of_it(plan: Plan) -> None:
    text = plan_to_json(plan)
    record = json.loads(text)
    assert "pipeline" not in record
    assert "stage" not in record["operators"][0]
    assert plan_to_json(plan_from_json(text)) == text
    record["pipeline"] = {"schedule": "-", "micro_batches": 8, "micro_batch": 1, "stages": []}
    with pytest.raises(PlanFileError, match="without a schedule"):
        plan_from_json(json.dumps(record))


def test_one_stage_of_one_micro_batch_stays_what_was_written(plan: Plan) -> None:
    only = PipelineStage(0, len(plan.operators), 1.0, 2.0, 3.0, 4.0, 1)
    schedule = Schedule.ONE_FORWARD_ONE_BACKWARD
    own = replace(plan, pipeline=replace(SINGLE, schedule=schedule, micro_batch=8, stages=(only,)))
    text = plan_to_json(own)
    assert json.loads(text)["pipeline"]["stages"][0]["forward_s"] == 1.0
    assert plan_to_json(plan_from_json(text)) == text
    assert plan_from_json(text).pipeline == own.pipeline
