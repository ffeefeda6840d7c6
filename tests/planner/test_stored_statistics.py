"""A plan for inference does not pay for the statistics of a batch."""

from __future__ import annotations

import pytest

from ir.graph import OpGraph, Role
from ir.ops import OpView, lookup
from planner.pipeline.preparation import prepare
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from topology.catalogue import named_cluster

CLUSTER = named_cluster("atlas-800t-a2", 8)


def network(**marks: int) -> OpGraph:
    build = GraphBuilder("normalised", dtype="float16")
    x = build.input("x", (64, 8, 16, 16))
    weights = [build.weight(name, (8,)) for name in ("scale", "bias")]
    stored = [build.tensor(name, (8,), Role.BUFFER) for name in ("mean", "variance")]
    return build.build(
        build.op("BatchNormalization", (x, *weights, *stored), (64, 8, 16, 16), name="y", **marks)
    )


@pytest.mark.parametrize(
    ("training", "marks", "messages"),
    [(True, {}, 2), (False, {}, 0), (False, {"training_mode": 1}, 2)],
)
def test_stored_statistics_take_no_messages(
    training: bool, marks: dict[str, int], messages: int
) -> None:
    graph, _ = prepare(network(**marks), CLUSTER, SearchRequest(training=training))
    op = next(op for op in graph.ops if op.kind == "BatchNormalization")
    rule = lookup(op.kind).rule(OpView(op, graph))
    assert sum(item.forward for item in rule.internal) == messages


def test_an_inference_plan_of_a_split_batch_has_no_communication() -> None:
    request = SearchRequest(
        training=False, target="generic", solver="dynamic_programming", time_limit_s=None,
        dataset_strategy="data_parallel",
    )  # fmt: skip
    with_stored, with_own = (
        search(network(**marks), CLUSTER, request).estimate.step_time_s
        for marks in ({}, {"training_mode": 1})
    )
    assert with_stored < with_own
