"""A model and a plan: which tensor is which, where they differ, what torch does otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executors.matching import MismatchError, matched
from executors.torch_differences import ApplyError, differences, refuse
from ir.graph import Op, OpGraph, Role
from ir.plan import PipelineStage, Plan
from planner.request import SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def plan() -> Plan:
    machine = named_cluster("atlas-800t-a2", 2)
    return search(mlp(2, 8, 16, 32), machine, SearchRequest(target="torch", training=True))


def renamed(graph: OpGraph) -> OpGraph:
    """The same graph with other names."""
    tensors = {f"my {n}": replace(t, name=f"my {n}") for n, t in graph.tensors.items()}

    def op(old: Op) -> Op:
        inputs, outputs = (tuple(n and f"my {n}" for n in x) for x in (old.inputs, old.outputs))
        return replace(old, name=f"my {old.name}", inputs=inputs, outputs=outputs)

    inputs, outputs = (tuple(f"my {n}" for n in x) for x in (graph.inputs, graph.outputs))
    ops = tuple(op(each) for each in graph.ops)
    return replace(graph, tensors=tensors, ops=ops, inputs=inputs, outputs=outputs)


def test_a_model_with_other_names_is_matched_by_structure(plan: Plan) -> None:
    found = matched(plan, renamed(mlp(2, 8, 16, 32)))
    assert found.names == {n: f"my {n}" for n in found.names}
    assert set(found.names) >= {t.name for t in plan.graph.parameters}


def test_a_parameter_that_is_stored_otherwise_goes_by_the_name_in_the_models_file(
    plan: Plan,
) -> None:
    def filed(graph: OpGraph, prefix: str) -> OpGraph:
        tensors = {
            n: replace(t, source=f"{prefix}{n}") if t.role is Role.PARAMETER else t
            for n, t in graph.tensors.items()
        }
        return replace(graph, tensors=tensors)

    own = replace(plan, graph=filed(plan.graph, "theirs "))
    found = matched(own, filed(renamed(mlp(2, 8, 16, 32)), "of "))
    for tensor in plan.graph.parameters:
        assert found.names[tensor.name] == f"of my {tensor.name}"


def test_another_width_is_a_mismatch_that_names_the_parameter(plan: Plan) -> None:
    with pytest.raises(MismatchError, match="only the plan has parameter") as raised:
        matched(plan, mlp(2, 8, 16, 64))
    assert "\n  fix: " in str(raised.value)


def test_what_torch_does_otherwise_has_a_price(plan: Plan) -> None:
    micro = replace(plan.pipeline, schedule="1f1b", micro_batches=4, micro_batch=2)
    lines = differences(replace(plan, pipeline=micro, rank_order=(1, 0)))
    assert any(line.startswith("the loop runs 4 micro-batches of 2") for line in lines)
    assert any("list hosts in that order" in line for line in lines)


def test_pipelines_that_torch_cannot_run_are_refused(plan: Plan) -> None:
    stage: PipelineStage = plan.pipeline.stages[0]
    two = replace(plan.pipeline, schedule="1f1b", micro_batches=2, stages=(stage, stage))
    refuse(replace(plan, pipeline=two))
    with pytest.raises(ApplyError, match="torch's schedules are 1f1b"):
        refuse(replace(plan, pipeline=replace(two, schedule="dualpipe")))
    uneven = replace(two, stages=(stage, replace(stage, mesh=(("card", 1, 0),))))
    with pytest.raises(ApplyError, match="different numbers of devices"):
        refuse(replace(plan, pipeline=uneven))
