"""A plan is one of the model that its search prepared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.request import SearchRequest
from planner.same_graph import planned_graph
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster


@pytest.mark.parametrize("cuts", [[], 3, "ab", [1, 2], [[1, "2"]], [[[1]]]])
def test_a_record_of_pins_may_hold_anything(cuts: object) -> None:
    graph = mlp(2, batch=64)
    plan = search(graph, named_cluster("atlas-800t-a2", 4), SearchRequest(training=False))
    strange = replace(plan, request={**plan.request, "pins": [["op_none", cuts]]})
    assert planned_graph(strange, graph).digest() == plan.digest
