"""A plan priced anew on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from importers.onnx import import_onnx
from ir.batch import with_batch
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from planner.pipeline.preparation import dialect_of_plan
from planner.repricing.other_machine import repriced
from planner.request import RequestError, SearchRequest
from planner.search import search
from tests.builders import GraphBuilder, attention_block, mlp
from topology.catalogue import named_cluster
from topology.cluster import Cluster

FAST = SearchRequest(solver="dynamic_programming", time_limit_s=None)
MODELS = Path(__file__).parents[2] / "data" / "models"
GRAPHS = {
    "attention": attention_block(batch=32),
    "products": mlp(3, batch=4096),
    "convolutions": with_batch(import_onnx(MODELS / "resnet50.onnx.gz"), 256),
}


@cache
def plan_of(name: str, target: str, training: bool = True, share: float = 1.0) -> Plan:
    request = replace(FAST, target=target, training=training)
    plan = search(GRAPHS[name], named_cluster("atlas-800t-a2", 16), request)
    if share < 1:
        limit = plan.estimate.peak_memory_bytes * share
        request = replace(request, memory_limit_bytes=limit)
        plan = search(GRAPHS[name], named_cluster("atlas-800t-a2", 16), request)
    return plan


@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize("name", ["attention", "products"])
@pytest.mark.parametrize("training", [True, False])
def test_on_its_own_machine_a_plan_is_what_it_was(name: str, target: str, training: bool) -> None:
    plan = plan_of(name, target, training)
    again = repriced(plan_from_json(plan_to_json(plan)), Cluster.from_dict(plan.cluster))
    for field in ("operators", "tensors", "collectives", "memory_bytes", "recomputed"):
        assert getattr(again, field) == getattr(plan, field)
    assert again.estimate.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=1e-12)
    assert again.estimate.peak_memory_bytes == plan.estimate.peak_memory_bytes


def strips() -> OpGraph:
    """A convolution of large images."""
    build = GraphBuilder("strips")
    operands = (build.input("x", (2, 4, 16, 64)), build.weight("w", (4, 4, 3, 3)))
    return build.build(build.op("Conv", operands, (2, 4, 16, 64), pads=(1,) * 4))


@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize(
    "asked",
    [
        {"pins": (("op_conv_0", ((1, 1, 1, 4), (1,) * 4)),)},
        {"dataset_strategy": ((1, 1, 1, 4),)},
        {"cut_positions": True},
    ],
)
def test_cuts_of_positions_are_known_again(target: str, asked: Mapping[str, Any]) -> None:
    """All the space of the search, not the plan alone: `explain` asks for what was not chosen."""
    request = replace(FAST, target=target, **asked)
    plan = search(strips(), named_cluster("atlas-800t-a2", 4), request)
    read = plan_from_json(plan_to_json(plan))
    again = repriced(read, Cluster.from_dict(plan.cluster))
    assert again.collectives == plan.collectives
    dialect = dialect_of_plan(read)
    assert dialect is not None
    assert dialect.cut_positions
    forgotten = dialect_of_plan(replace(read, request={"target": target}))
    cut = any(layout is not None and any(layout.dims[2:]) for layout in plan.operators[0].inputs)
    assert forgotten is not None
    assert forgotten.cut_positions is cut


def test_what_is_computed_again_stays_so() -> None:
    plan = plan_of("convolutions", "generic", share=0.4)
    assert plan.recomputed
    again = repriced(plan, Cluster.from_dict(plan.cluster))
    assert again.operators == plan.operators
    assert any(o.recompute_s for o in again.operators) or any(t.recompute_s for t in again.tensors)


def test_faster_tiers_shorten_the_same_collectives() -> None:
    plan = plan_of("attention", "generic")
    cluster = Cluster.from_dict(plan.cluster)
    for tier in ("server", "card"):
        cluster = cluster.with_bandwidth(tier, 4.0)
    again = repriced(plan, cluster)
    pairs = list(zip(again.collectives, plan.collectives, strict=True))
    assert all(replace(n, time_s=o.time_s, hidden_s=o.hidden_s) == o for n, o in pairs)
    assert all(new.time_s < old.time_s for new, old in pairs)
    assert again.operators == plan.operators


def test_another_chip_has_other_times_of_operators() -> None:
    plan = plan_of("products", "generic")
    own = Cluster.from_dict(plan.cluster)
    fast = {kind: rate * 2 for kind, rate in own.chip.peak_flops.items()}
    again = repriced(plan, replace(own, chip=replace(own.chip, peak_flops=fast)))
    assert sum(o.compute_s for o in again.operators) < sum(o.compute_s for o in plan.operators)
    assert again.collectives == plan.collectives


def test_a_machine_of_another_shape_is_refused() -> None:
    plan = plan_of("products", "generic")
    with pytest.raises(RequestError, match=r"the plan is for tiers of 2 x 8 .*\n.*--cluster\n"):
        repriced(plan, named_cluster("atlas-800t-a2", 8))
    with pytest.raises(RequestError, match="target"):
        repriced(replace(plan, request={**plan.request, "target": "?"}),
              Cluster.from_dict(plan.cluster))  # fmt: skip
