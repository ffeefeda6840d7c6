"""Plans that JAX cannot run are refused before JAX is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executors.jax_refusals import JaxPlanError, refuse
from ir.plan import PipelineStage
from tests.plans import tiny_plan

pytestmark = pytest.mark.fast


def test_a_plan_of_one_stage_is_taken() -> None:
    refuse(tiny_plan())


def test_stages_are_refused() -> None:
    plan = tiny_plan()
    stage = PipelineStage(0, 1, 1.0, 1.0, 0.0, 1.0, 1)
    staged = replace(plan, pipeline=replace(plan.pipeline, schedule="1f1b", stages=(stage, stage)))
    with pytest.raises(JaxPlanError, match="2 pipeline stages"):
        refuse(staged)


def test_a_traced_step_is_refused() -> None:
    plan = tiny_plan()
    step = replace(plan, graph=replace(plan.graph, gradients={"w": "w.grad"}))
    with pytest.raises(JaxPlanError, match="traced training step"):
        refuse(step)
