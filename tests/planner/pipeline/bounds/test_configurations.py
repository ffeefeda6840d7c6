"""What is expected of the shapes of a step."""

from __future__ import annotations

import math

import pytest

from costmodel.schedules.least_step import NOTHING
from planner.pipeline.bounds.configurations import price_configurations
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration
from planner.request import SearchRequest
from tests.builders import mlp
from topology.catalogue import named_cluster

BATCH = 64


@pytest.mark.parametrize(("stages", "micro_batch"), [(2, 32), (2, 16), (4, 16)])
def test_what_is_expected_of_chunks_does_not_depend_on_what_is_known(
    stages: int, micro_batch: int
) -> None:
    graph = mlp(12, batch=BATCH, width=1024, hidden=4096)
    request = SearchRequest(global_batch=BATCH, target="generic")
    search = PipelineSearch(graph, named_cluster("dgx-a100", 16), request)
    shape = Configuration(stages, micro_batch, BATCH // micro_batch, 2)
    (alone,), _ = price_configurations(search, [(shape, NOTHING)], math.inf)
    (behind,), _ = price_configurations(search, [(shape, NOTHING)], alone.expected_s * (1 + 1e-4))
    assert math.isfinite(alone.expected_s)
    assert behind.expected_s == alone.expected_s
    assert behind.ends == alone.ends
