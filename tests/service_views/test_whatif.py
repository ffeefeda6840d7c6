"""The same splits with other factors: as the planner prices them when it plans there."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

from costmodel.simulation.result import SimulationError
from ir.plan import Plan
from planner.pipeline.pipeline_search import search_pipeline
from planner.repricing.other_circumstances import Factors, scaled_cluster, with_global_batch
from planner.request import RequestError
from service.views.whatif import sizes_view, whatif_view
from tests.builders import mlp
from tests.service_views.plans_of import FAST, plan_of
from topology.catalogue import named_cluster


def test_without_factors_nothing_changes() -> None:
    view = whatif_view(plan_of("attention"), Factors())
    assert view["before"] == view["after"]


@pytest.mark.parametrize("name", ["attention", "products", "layers"])
def test_a_faster_link_never_makes_the_step_longer(name: str) -> None:
    plan = plan_of(name)
    for tier in ("server", "card"):
        steps = [
            whatif_view(plan, Factors(bandwidth={tier: factor}))["after"]["step_s"]
            for factor in (0.5, 1.0, 2.0)
        ]
        assert steps[0] >= steps[1] * (1 - 1e-9) >= steps[2] * (1 - 2e-9)


@pytest.mark.parametrize("name", ["products", "layers"])
def test_links_that_are_a_hundred_times_slower_are_felt(name: str) -> None:
    plan = plan_of(name)
    view = whatif_view(plan, Factors(bandwidth={"server": 0.01, "card": 0.01}))
    moved_s = math.fsum(c.time_s for c in plan.collectives)
    assert moved_s > 0
    gain_s = view["after"]["step_s"] - view["before"]["step_s"]
    assert gain_s > moved_s
    assert view["after"]["computing_s"] == pytest.approx(view["before"]["computing_s"])


@pytest.mark.parametrize(("batch", "devices"), [(64, 16), (32, 32), (64, 32)])
def test_kept_splits_cost_what_a_search_says_that_finds_the_same_splits(
    batch: int, devices: int
) -> None:
    plan, there = plan_of("products", 16, 4096), plan_of("products", devices, batch * 128)
    view = whatif_view(plan, Factors(devices=devices, batch=batch * 128))["after"]
    if _layouts(plan) == _layouts(there):
        assert view["step_s"] == pytest.approx(there.estimate.step_time_s, rel=1e-6)
    assert view["step_s"] >= there.bound.bound_s * (1 - 1e-6)


def _layouts(plan: Plan) -> list[object]:
    """How products are split, and how parameters rest."""
    splits = [o.split for o in plan.operators if o.kind == "MatMul"]
    return [*splits, *(t.layout for t in plan.parameters)]


@pytest.mark.fast
@pytest.mark.parametrize("name", ["attention", "products", "layers", "staged"])
def test_every_size_that_is_offered_can_be_taken(name: str) -> None:
    plan = staged() if name == "staged" else plan_of(name)
    sizes = sizes_view(plan)
    assert plan.devices in sizes["devices"]
    assert plan.batch in sizes["batch"]
    assert len(sizes["batch"]) > 1
    for devices in sizes["devices"]:
        assert whatif_view(plan, Factors(devices=devices))["after"]["devices"] == devices
    for batch in sizes["batch"]:
        assert whatif_view(plan, Factors(batch=batch))["after"]["batch"] == batch


def test_what_is_not_offered_says_that_the_splits_cannot_be_kept() -> None:
    plan = plan_of("products")
    batch = max(b for b in (1, 2, 4, 8) if b not in sizes_view(plan)["batch"])
    with pytest.raises(RequestError, match="cannot be kept on 16 devices"):
        whatif_view(plan, Factors(batch=batch))


def test_memory_that_is_too_small_is_told() -> None:
    plan = plan_of("attention")
    peak = plan.estimate.peak_memory_bytes
    assert whatif_view(plan, Factors(memory_bytes=peak * 1.01))["after"]["fits"]
    assert not whatif_view(plan, Factors(memory_bytes=peak * 0.9))["after"]["fits"]


@pytest.mark.parametrize("devices", [1, 2, 4, 8, 16, 32, 64, 128])
def test_a_scaled_machine_has_so_many_devices(devices: int) -> None:
    cluster = scaled_cluster(named_cluster("atlas-800t-a2", 16), devices)
    assert math.prod(tier.size for tier in cluster.tiers) == devices


def test_one_server_does_not_grow_into_two() -> None:
    with pytest.raises(RequestError, match="have tiers server, card, the plan's card"):
        scaled_cluster(named_cluster("atlas-800t-a2", 8), 16)


@pytest.mark.parametrize("devices", [3, 12, 17])
def test_devices_that_the_tiers_cannot_make_are_refused(devices: int) -> None:
    with pytest.raises(RequestError, match="do not become"):
        scaled_cluster(named_cluster("atlas-800t-a2", 16), devices)


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_fewer_devices_take_at_least_as_long_or_are_refused(devices: int) -> None:
    plan = plan_of("products")
    try:
        view = whatif_view(plan, Factors(devices=devices))
    except (RequestError, SimulationError):
        return
    assert view["after"]["computing_s"] >= view["before"]["computing_s"]


@cache
def staged(batch: int = 256, interleave: str = "1") -> Plan:
    request = replace(
        FAST, global_batch=batch, pipeline="2", micro_batch="32", interleave=interleave
    )
    return search_pipeline(mlp(4), named_cluster("atlas-800t-a2", 8), request)


def test_stages_without_factors_are_as_planned() -> None:
    view = whatif_view(staged(), Factors())
    assert view["before"] == view["after"]
    assert view["after"]["step_s"] == staged().estimate.step_time_s


@pytest.mark.parametrize("interleave", ["1", "2"])
@pytest.mark.parametrize("batch", [64, 128, 512, 2048])
def test_another_global_batch_costs_what_a_search_says_that_cuts_alike(
    batch: int, interleave: str
) -> None:
    plan, there = staged(interleave=interleave), staged(batch, interleave)
    view = whatif_view(plan, Factors(batch=batch))["after"]
    assert view["batch"] == batch
    assert view["step_s"] >= there.bound.bound_s * (1 - 1e-6)
    same = [op.split for op in plan.operators] == [op.split for op in there.operators]
    spans = [[(s.start, s.end) for s in p.pipeline.stages] for p in (plan, there)]
    if same and spans[0] == spans[1]:
        assert view["step_s"] == pytest.approx(there.estimate.step_time_s, rel=1e-6)


def test_there_and_back_the_batch_is_what_it_was() -> None:
    plan = staged()
    back = with_global_batch(with_global_batch(plan, 1024), 256)
    assert [c.count for c in back.collectives] == [c.count for c in plan.collectives]
    for one, other in zip(back.operators, plan.operators, strict=True):
        assert one.compute_s == pytest.approx(other.compute_s)


def test_faster_links_between_stages_are_felt() -> None:
    steps = [
        whatif_view(staged(), Factors(bandwidth={"card": factor}))["after"]["step_s"]
        for factor in (0.1, 1.0, 10.0)
    ]
    assert steps[0] > steps[1] > steps[2]


@pytest.mark.parametrize(
    ("factors", "words"),
    [(Factors(batch=40), "no multiple of the micro-batch"), (Factors(devices=16), "stages keep")],
)
def test_what_stages_cannot_keep_is_refused(factors: Factors, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        whatif_view(staged(), factors)
