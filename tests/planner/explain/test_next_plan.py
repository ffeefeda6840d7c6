"""What a run of a plan says of the next one."""

from __future__ import annotations

import pytest

from costmodel.collectives import Collective, CollectiveModel
from ir.plan import Plan
from planner.explain.next_plan import next_plan, with_rates
from planner.request import SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster
from topology.mesh import tier_mesh

pytestmark = pytest.mark.fast

MACHINE = named_cluster("dgx-h100", 4)


@pytest.fixture(scope="module")
def split() -> Plan:
    """Small layers, which repeat on every device."""
    return search(mlp(4, 64, 256, 1024), MACHINE, SearchRequest(target="torch", zero="0"))


def test_a_plan_whose_times_were_right_stays(split: Plan) -> None:
    assert next_plan(split, 1.0, 1.0) is None


def test_computation_that_took_longer_pays_for_messages(split: Plan) -> None:
    found = next_plan(split, 100.0, 1.0)
    assert found is not None
    assert found.next_s < 0.98 * found.this_s
    assert found.plan.cluster == with_rates(MACHINE, 100.0, 1.0).to_dict()
    assert len(found.plan.collectives) > len(split.collectives)


def test_rates_change_by_what_was_measured() -> None:
    slow = with_rates(MACHINE, 2.0, 4.0)
    assert slow.chip.peak_flops["bfloat16"] * 2 == MACHINE.chip.peak_flops["bfloat16"]
    assert slow.tiers[-1].latency_s == 4 * MACHINE.tiers[-1].latency_s
    for nbytes in (1e3, 1e6, 1e9):
        was_s, is_s = (
            CollectiveModel(each, tier_mesh(each)).time_s(Collective.ALL_REDUCE, nbytes, (0,))
            for each in (MACHINE, slow)
        )
        assert is_s == pytest.approx(4 * was_s, rel=1e-6)


@pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf"), -1.0])
def test_what_was_not_measured_proposes_nothing(split: Plan, bad: float) -> None:
    assert next_plan(split, bad, 1.0) is None
