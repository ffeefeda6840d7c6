"""A batch is cut into pipeline stages where these save waiting for the links between servers."""

from __future__ import annotations

import math

import pytest

from ir.plan import Plan
from planner.request import NEEDED, SearchRequest
from planner.search import STAGES_SAVE, WAITING, search
from tests.builders import mlp
from topology.catalogue import named_cluster

BATCH = 2048


def planned(links: float, pipeline: str) -> Plan:
    """The answer on two servers whose links are so much faster."""
    cluster = named_cluster("dgx-a100", 16).with_bandwidth("server", links)
    asked = SearchRequest(target="generic", batch=BATCH, pipeline=pipeline)
    return search(mlp(8, BATCH, 8192, 8192), cluster, asked)


def waiting(plan: Plan) -> float:
    """Share of a step that waits for the links between servers."""
    exposed = (item.exposed_s for item in plan.collectives if item.tier == "server")
    return math.fsum(exposed) / plan.estimate.step_time_s


def test_stages_are_tried_where_links_between_servers_are_waited_for() -> None:
    alone, found = planned(0.15, "off"), planned(0.15, NEEDED)
    assert alone.pipeline.is_single
    assert waiting(alone) > WAITING
    assert len(found.pipeline.stages) > 1
    assert found.estimate.step_time_s < alone.estimate.step_time_s * (1 - STAGES_SAVE)
    assert found.bound.bound_s <= alone.bound.bound_s
    assert any("without them" in note for note in found.notes)


@pytest.mark.parametrize("links", [0.08, 1.0])
def test_elsewhere_the_answer_is_that_without_stages(links: float) -> None:
    alone, found = planned(links, "off"), planned(links, NEEDED)
    assert waiting(alone) <= WAITING
    assert found == alone
