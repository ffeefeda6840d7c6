"""Baselines are points of the same problem, and no plan is slower than one that fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from importers.onnx import import_onnx
from ir.batch import batch_dims
from planner.constraints.schemes import choice_of
from planner.pipeline.baselines import baselines, schemes
from planner.pipeline.one_batch import search_batch
from planner.pipeline.plan_builder import PlanBuilder
from planner.request import InfeasibleError
from planner.search import search
from tests.builders import attention_block, mlp
from tests.planner.lowering_of import all_lowered
from tests.planner.test_plans import FAST
from topology.catalogue import named_cluster

TARGETS = ["mindspore", "generic"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_baseline_costs_what_the_problem_says(target: str) -> None:
    lowered = all_lowered(attention_block(batch=32), 16, target)[0]
    for baseline, choice in baselines(lowered):
        assert choice is not None, baseline
        assert baseline.step_time_s == lowered.problem.cost_s(choice)
        assert baseline.peak_memory_bytes == lowered.problem.peak_bytes(choice)


@pytest.mark.parametrize("target", TARGETS)
def test_each_scheme_does_what_its_name_says(target: str) -> None:
    lowered = all_lowered(attention_block(batch=32), 16, target)[0]
    where = batch_dims(lowered.liveness.graph)
    names = [a.name for a in lowered.setting.mesh.axes]
    plain, sharded, tensor = (
        PlanBuilder(lowered, choice_of(lowered, scheme, where)) for scheme in schemes(lowered)
    )
    for op in plain.operators():
        assert all(layout is None or not any(layout.dims[1:]) for layout in op.outputs)
    weights = {t.name: t for t in plain.tensors() if t.role == "parameter"}
    assert all(not any(t.layout.dims) for t in weights.values())
    for weight in (t for t in sharded.tensors() if t.role == "parameter"):
        assert sum(len(d) for d in weight.layout.dims) == len(names)
        assert weight.used is not None
        assert not any(weight.used.dims)
    inside = set(names[1:])
    for weight in (t for t in tensor.tensors() if t.role == "parameter"):
        assert weight.used is not None
        assert {a for d in weight.used.dims for a in d} == inside


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("batch", [8, 64, 512])
def test_the_plan_is_at_least_as_fast_as_each_baseline_that_fits(target: str, batch: int) -> None:
    request = replace(FAST, target=target)
    plan = search(attention_block(batch=batch), named_cluster("atlas-800t-a2", 16), request)
    assert len(plan.baselines) == 3
    for baseline in plan.baselines:
        if baseline.fits:
            assert baseline.step_time_s is not None
            assert plan.estimate.step_time_s <= baseline.step_time_s * (1 + 1e-12)


def test_a_batch_that_does_not_divide_is_the_reason() -> None:
    plan = search(mlp(2, batch=6), named_cluster("atlas-800t-a2", 16), FAST)
    first = plan.baselines[0]
    assert not first.fits
    assert first.step_time_s is None
    assert "batch of 6 does not split 16 ways" in first.reason


def test_a_baseline_that_does_not_fit_has_its_time_as_if_it_did() -> None:
    graph = mlp(4, batch=65536, width=1024, hidden=8192)
    peak = search(graph, named_cluster("atlas-800t-a2", 8), FAST).estimate.peak_memory_bytes
    limited = replace(FAST, memory_limit_bytes=peak * 1.01)
    plan = search(graph, named_cluster("atlas-800t-a2", 8), limited)
    plain = plan.baselines[0]
    assert not plain.fits
    assert plain.step_time_s is not None
    assert "GiB per device" in plain.reason


def test_what_does_not_fit_comes_with_its_baselines() -> None:
    graph = mlp(4, batch=2**22, width=4096, hidden=16384)
    with pytest.raises(InfeasibleError) as caught:
        search_batch(graph, named_cluster("atlas-800t-a2", 8), FAST)
    assert [b.fits for b in caught.value.baselines] == [False] * 3


def test_work_that_a_target_cannot_split_is_repeated_and_the_scheme_stands() -> None:
    """The token of a vision transformer is a parameter, broadcast along the batch."""
    path = Path(__file__).parents[2] / "data" / "models" / "vit_large.onnx.gz"
    request = replace(FAST, batch=64, target="mindspore")
    plan = search(import_onnx(path), named_cluster("atlas-800t-a2", 8), request)
    assert all(b.fits for b in plan.baselines)
    assert all((b.step_time_s or 0) >= plan.estimate.step_time_s for b in plan.baselines)
