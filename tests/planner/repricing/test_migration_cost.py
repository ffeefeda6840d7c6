"""What it costs to go on with another plan."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ir.plan import NamedLayout, Plan
from ir.plan_slicing import plan_slicing
from ir.slicing import box_dims
from planner.repricing.migration_cost import migration
from planner.request import RequestError, SearchRequest
from planner.search import search
from tests.exporters.small_networks import language_model, twisted_model
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast


def plan_of(devices: int, *, training: bool = True) -> Plan:
    cluster = named_cluster("atlas-800-9000", devices)
    return search(language_model(), cluster, SearchRequest(dtype="fp32", training=training))


def held_bytes(plan: Plan, item_bytes: int) -> int:
    slicing = plan_slicing(plan)
    return sum(
        item_bytes * math.prod(box_dims(grid.box(rank, slicing.dims[name])))
        for name, (grid,) in slicing.grids.items()
        for rank in grid.ranks
    )


def test_to_the_same_plan_nothing_moves() -> None:
    plan = plan_of(8)
    found = migration(plan, plan)
    assert found.traffic.moved_bytes == found.time_s == 0
    assert found.traffic.kept_bytes == held_bytes(plan, 12)


def test_after_a_lost_server_every_byte_is_kept_moved_or_read_again() -> None:
    old, new = plan_of(16), plan_of(8)
    for lost in (range(8), range(8, 16)):
        found = migration(old, new, tuple(lost))
        parts = found.traffic.kept_bytes, found.traffic.moved_bytes, found.traffic.lost_bytes
        assert sum(parts) == held_bytes(new, 12)
        assert not {d for pair in found.traffic.messages for d in pair} & set(lost)
        assert found.schedule.bound_s <= found.time_s


def test_replicated_weights_survive_any_loss() -> None:
    old, new = plan_of(16), plan_of(8)
    whole = tuple(
        replace(t, layout=replace(t.layout, dims=((),) * len(t.dims)), used=None)
        for t in old.tensors
    )
    copies = replace(old, tensors=whole)
    found = migration(copies, new, tuple(range(8)))
    assert found.traffic.lost_bytes == found.traffic.moved_bytes == 0
    more = migration(new, copies)
    assert more.traffic.moved_bytes == held_bytes(copies, 12) - more.traffic.kept_bytes > 0


def test_of_weights_that_are_split_everywhere_half_are_lost_with_half_of_the_devices() -> None:
    old, new = fully_split(plan_of(16)), fully_split(plan_of(8))
    found = migration(old, new, tuple(range(8, 16)))
    assert found.traffic.lost_bytes == held_bytes(new, 12) / 2
    assert found.traffic.kept_bytes == held_bytes(old, 12) / 16
    assert not {d for pair in found.traffic.messages for d in pair} & set(range(8, 16))


def fully_split(plan: Plan) -> Plan:
    """Every parameter in equal rows on all devices."""
    axes = tuple(name for name, _, _ in plan.mesh)
    tensors = tuple(
        replace(t, layout=NamedLayout((axes, *((),) * (len(t.dims) - 1))), used=None)
        for t in plan.tensors
    )
    return replace(plan, tensors=tensors)


def test_to_serving_weights_move_alone() -> None:
    old, new = plan_of(8), plan_of(4, training=False)
    found = migration(old, new)
    assert found.traffic.moved_bytes + found.traffic.kept_bytes == held_bytes(new, 4)


def test_faults_are_said() -> None:
    old, new = plan_of(8), plan_of(4)
    with pytest.raises(RequestError, match="device 8 of a plan for 8 cannot be lost"):
        migration(old, new, (8,))
    with pytest.raises(RequestError, match="wants 4 devices, 3 are left"):
        migration(old, new, (0, 1, 2, 3, 4))
    other = search(twisted_model(), named_cluster("atlas-800-9000", 4), SearchRequest(dtype="fp32"))
    with pytest.raises(RequestError, match="of two models"):
        migration(old, other)
