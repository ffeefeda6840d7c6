"""A plan is one of the model that its search prepared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from importers.errors import ModelError, UnboundError
from ir.batch import BatchError
from ir.graph import OpGraph
from planner.repricing.planned_choice import planned_graph
from planner.request import RequestError, SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("cuts", [3, "ab", [1, 2], [[1, "2"]], [[[1]]]])
def test_a_record_of_pins_that_was_changed_is_told(cuts: object) -> None:
    graph = mlp(2, batch=64)
    plan = search(graph, named_cluster("atlas-800t-a2", 4), SearchRequest(training=False))
    strange = replace(plan, request={**plan.request, "pins": [["op_none", cuts]]})
    with pytest.raises(RequestError, match=r"at:  request\.pins of the plan"):
        planned_graph(strange, lambda _: graph)


@pytest.mark.parametrize(
    "refusal",
    [
        UnboundError(["rows"], "input 'x'"),
        ModelError("the model has no dynamic dimension 'batch'", "--bind"),
        BatchError("the batch ends at node 3"),
    ],
)
def test_a_model_that_cannot_have_the_sizes_of_a_plan_is_another_one(refusal: Exception) -> None:
    plan = search(mlp(2), named_cluster("atlas-800t-a2", 4), SearchRequest(training=False))

    def read(_: object) -> OpGraph:
        raise refusal

    with pytest.raises(RequestError, match="the plan is for another model"):
        planned_graph(plan, read)


def test_a_model_that_cannot_be_read_is_not_called_another_one() -> None:
    plan = search(mlp(2), named_cluster("atlas-800t-a2", 4), SearchRequest(training=False))

    def read(_: object) -> OpGraph:
        raise ModelError("m.onnx is empty", "m.onnx")

    with pytest.raises(ModelError, match="is empty"):
        planned_graph(plan, read)
