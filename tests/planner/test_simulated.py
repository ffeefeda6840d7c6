"""A plan is simulated as asked, and told what would make it fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from planner.requests.options.simulations import SimulationOptions
from planner.requests.simulations import simulated
from tests.costmodel.simulation.test_plan_simulation import plan_of
from tests.service_views.chinese import without_chinese

if TYPE_CHECKING:
    from ir.plan import Plan


def limited(plan: Plan, nbytes: float) -> Plan:
    return replace(plan, estimate=replace(plan.estimate, memory_limit_bytes=nbytes))


def told(plan: Plan, prefetch: int) -> list[str]:
    found = simulated(plan, SimulationOptions(prefetch=prefetch))
    return [note for note in found.notes if "--prefetch 0" in note]


@pytest.mark.parametrize("prefetch", [2, 4])
def test_what_is_gathered_ahead_is_named_where_it_alone_does_not_fit(prefetch: int) -> None:
    plan = plan_of("transformer", share=0.7)
    peak = simulated(plan, SimulationOptions(prefetch=0)).peak_memory_bytes
    (note,) = told(limited(plan, 1.0001 * peak), prefetch)
    assert not without_chinese(note)
    assert not told(limited(plan, 1.0001 * peak), 0)
    assert not told(limited(plan, 0.9 * peak), prefetch)
    assert not told(limited(plan, 10 * peak), prefetch)
