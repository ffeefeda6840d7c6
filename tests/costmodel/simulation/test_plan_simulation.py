"""Simulated steps of plans that search found."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from costmodel.simulation.buckets import Fusion, FusionMode
from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.engine import run
from costmodel.simulation.operator_passes import operator_levels
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.step_in_order import in_turn_s
from costmodel.simulation.task_graph import Activity, TaskGraph
from importers.hf_config import import_config
from importers.onnx import import_onnx
from importers.sizes import published, with_sizes
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_enums import Cause
from planner.repricing.other_machine import repriced
from planner.request import SearchRequest
from planner.search import search
from tests.builders import attention_block, mlp
from topology.catalogue import named_cluster
from topology.cluster import Cluster

MODELS = Path(__file__).parents[2] / "data" / "models"
FAST = SearchRequest(solver="dynamic_programming", time_limit_s=None)
SERIAL, OVERLAP = Effects.none(), Effects(contention=Contention.NONE)


def transformer(name: str, layers: int, rows: int = 1024) -> OpGraph:
    """A published model with fewer layers."""
    config = with_sizes(published(name).config, {"layers": layers})
    return import_config(config, name, name, {"sequence": rows})


GRAPHS = {
    "products": lambda: mlp(3, batch=4096, width=1024, hidden=4096),
    "attention": lambda: attention_block(batch=32),
    "transformer": lambda: transformer("llama3-8b", 4),
    "experts": lambda: transformer("mixtral-8x7b", 2),
    "convolutions": lambda: import_onnx(MODELS / "resnet50.onnx.gz"),
    "tables": lambda: import_onnx(MODELS / "deepfm_criteo.onnx.gz"),
    "traced step": lambda: import_onnx(MODELS / "gpt_small_train_step.onnx.gz"),
}
SLOW = ("traced step", "mindspore")
"""Takes long to plan."""
ACTIVATIONS = {Cause.FORWARD, Cause.ACTIVATION_GRADIENT, Cause.INSIDE}
BATCH = {"transformer": 16, "experts": 16, "convolutions": 256, "tables": 4096}


@cache
def plan_of(
    name: str,
    target: str = "generic",
    training: bool = True,
    share: float = 1.0,
    overlap: str = "auto",
) -> Plan:
    """A plan on two servers; `share` of the memory that it wants."""
    asked = replace(FAST, target=target, training=training, batch=BATCH.get(name))
    request = replace(asked, overlap=overlap)
    cluster = named_cluster("atlas-800t-a2", 16)
    plan = search(GRAPHS[name](), cluster, request)
    if share < 1:
        limit = plan.estimate.peak_memory_bytes * share
        plan = search(GRAPHS[name](), cluster, replace(request, memory_limit_bytes=limit))
    return plan


def test_no_more_of_the_activations_hides_than_the_software_says() -> None:
    """Branches of experts may run beside the messages of others; frameworks wait for them."""
    plan = plan_of("experts")
    own = [i for i in simulate_plan(plan, OVERLAP).account.communication if i.cause in ACTIVATIONS]
    told_s = sum(i.time_s for i in plan.collectives if i.cause in ACTIVATIONS)
    assert told_s > 0.05 * plan.estimate.step_time_s
    assert sum(i.hidden_s for i in own) == pytest.approx(0.0, abs=1e-12)
    assert sum(i.exposed_s for i in own) == pytest.approx(told_s)


def faster(plan: Plan, **factors: float) -> Plan:
    cluster = Cluster.from_dict(plan.cluster)
    for tier, factor in factors.items():
        cluster = cluster.with_bandwidth(tier, factor)
    return repriced(plan, cluster)


def hidden_of(found: Simulation, cause: str) -> tuple[float, float]:
    own = [c for c in found.account.communication if c.cause == cause]
    return sum(c.total_s for c in own), sum(c.exposed_s for c in own)


@pytest.mark.parametrize(
    ("name", "target"),
    [(n, t) for n in sorted(GRAPHS) for t in ("generic", "mindspore") if (n, t) != SLOW],
)
def test_without_overlap_and_contention_simulation_equals_the_estimate(
    name: str, target: str
) -> None:
    plan = plan_of(name, target)
    found = simulate_plan(plan, SERIAL)
    assert found.step_s == pytest.approx(in_turn_s(plan), rel=1e-9)
    assert found.account.waiting_s == pytest.approx(0.0, abs=1e-9 * found.step_s)
    causes = dict(found.account.computing)
    for item in found.account.communication:
        key = f"{item.kind} in {item.tier}"
        causes[key] = causes.get(key, 0.0) + item.total_s
    wanted = dict(plan.estimate.time_by_cause)
    for key, seconds in plan.estimate.hidden_by_cause.items():
        wanted[key] = wanted.get(key, 0.0) + seconds
    assert {k: v for k, v in causes.items() if v > 0} == pytest.approx(wanted, rel=1e-9)


def test_the_same_holds_for_inference_and_where_tensors_are_computed_again() -> None:
    again = plan_of("convolutions", share=0.4)
    assert again.recomputed
    for plan in (again, plan_of("attention", training=False)):
        found = simulate_plan(plan, SERIAL)
        assert found.step_s == pytest.approx(in_turn_s(plan), rel=1e-9)


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_overlap_hides_communication_and_nothing_else(name: str) -> None:
    plan = plan_of(name)
    serial, found = simulate_plan(plan, SERIAL), simulate_plan(plan, OVERLAP)
    assert found.step_s <= serial.step_s * (1 + 1e-12)
    assert found.account.computing == pytest.approx(serial.account.computing)
    computing = sum(found.account.computing.values())
    assert computing <= found.step_s
    assert computing + found.account.exposed_s + found.account.waiting_s == pytest.approx(
        found.step_s
    )


@pytest.mark.parametrize("name", ["transformer"])
def test_gradients_of_data_parallel_plans_hide_behind_the_backward_pass(name: str) -> None:
    """Those of ResNet-50 do not: they fill one bucket, which is sent when the pass has ended."""
    total, exposed = hidden_of(simulate_plan(plan_of(name), OVERLAP), "gradient sync")
    assert 0 < exposed < 0.95 * total


@pytest.mark.parametrize(
    ("name", "target"), [("convolutions", "generic"), ("transformer", "mindspore")]
)
def test_collectives_inside_operators_run_in_the_pass_that_needs_them(
    name: str, target: str
) -> None:
    plan = plan_of(name, target)
    inside = [c for c in plan.collectives if c.cause == "inside operators"]
    assert any(c.backward for c in inside)
    timeline = simulate_plan(plan, SERIAL).timeline
    works = timeline.graph.activities
    turn = min(timeline.start_s[t] for t, w in enumerate(works) if w.cause == "compute backward")
    own = [t for t, w in enumerate(works) if w.cause == "inside operators"]
    behind = sum(timeline.graph.seconds[t] for t in own if timeline.start_s[t] >= turn)
    wanted = sum(c.time_s * c.backward / c.count for c in inside)
    assert behind == pytest.approx(wanted, rel=1e-9)


def test_every_memory_point_is_at_its_operator() -> None:
    plan = plan_of("transformer")
    found = simulate_plan(plan, SERIAL)
    curve = found.memory[0]
    assert curve.peak_bytes >= plan.estimate.peak_memory_bytes * (1 - 1e-12)
    assert curve.nbytes.min() >= min(plan.memory_bytes) * (1 - 1e-12)
    assert 0 < curve.peak_at_s < found.step_s
    assert (curve.time_s[1:] > curve.time_s[:-1]).all()


@pytest.mark.parametrize("peak", range(5))
def test_operators_that_take_no_time_are_in_memory_too(peak: int) -> None:
    """Two of five points share a task, and another one comes before anything runs."""
    graph = TaskGraph()
    stream = graph.stream(graph.device("device"), "compute")
    for name in ("first", "second"):
        graph.add(name, Activity("compute forward"), 1.0, (stream,))
    tasks = (-1, 0, 0, 1, 1)
    points = [float(10 * (number == peak) + number) for number in range(5)]
    assert operator_levels(run(graph), tasks, points)[1].cumsum().max() == max(points)


def test_prefetched_parameters_take_memory_and_save_time() -> None:
    # Little memory: the parameters rest in shards.
    plan = plan_of("transformer", share=0.7)
    steps, peaks = [], []
    for ahead in (0, 1, 3):
        found = simulate_plan(plan, replace(OVERLAP, prefetch=ahead))
        steps.append(found.step_s)
        peaks.append(found.peak_memory_bytes)
    assert steps[0] > max(steps[1:])
    # What is gathered a layer ahead is in the memory of the plan itself.
    assert peaks[0] == peaks[1] == plan.estimate.peak_memory_bytes < peaks[2]
    assert hidden_of(simulate_plan(plan, OVERLAP), "parameter gather")[0] > 0


@pytest.mark.parametrize(
    ("name", "kind", "share"),
    [("convolutions", "all_reduce", 1.0), ("transformer", "reduce_scatter", 0.7),
     ("transformer", "all_gather", 0.7)],
)  # fmt: skip
def test_smaller_buckets_pay_more_latency(name: str, kind: str, share: float) -> None:
    plan = plan_of(name, "mindspore", share=share, overlap="none")
    totals = []
    for nbytes in (0, 2**23, 2**33):
        fusion = {kind: Fusion(FusionMode.SIZE, nbytes)}
        found = simulate_plan(plan, replace(SERIAL, fusion=fusion))
        own = [c for c in found.account.communication if c.kind == kind]
        fused = {"gradient sync", "parameter gather"}
        totals.append(sum(c.total_s for c in own if c.cause in fused))
    assert totals[0] > totals[1] > totals[2] > 0


def test_index_fusion_makes_as_many_buckets_as_it_says() -> None:
    plan = plan_of("convolutions", "mindspore", overlap="none")
    fusion = {"all_reduce": Fusion(FusionMode.INDEX, splits=(3, 90))}
    timeline = simulate_plan(plan, replace(OVERLAP, fusion=fusion)).timeline
    works = [w for w in timeline.graph.activities if w.cause == "gradient sync"]
    reduced = [w for w in works if w.kind == "all_reduce"]
    assert len(reduced) == 3


@pytest.mark.parametrize("name", sorted(set(GRAPHS) - {"traced step"}))
@pytest.mark.parametrize(
    "effects",
    [SERIAL, OVERLAP, Effects(contention=Contention.QUEUE)],
    ids=["serial", "overlap", "queue"],
)
def test_more_bandwidth_never_slows_a_plan(name: str, effects: Effects) -> None:
    plan = plan_of(name)
    before = simulate_plan(plan, effects).step_s
    for tier in ("server", "card"):
        for factor in (1.1, 2.0, 10.0):
            after = simulate_plan(faster(plan, **{tier: factor}), effects).step_s
            assert after <= before * (1 + 1e-12)


def test_a_faster_link_on_the_critical_path_speeds_a_plan_up() -> None:
    plan = plan_of("transformer")
    crossed = {
        c.tier for c in simulate_plan(plan, OVERLAP).account.communication if c.exposed_s > 0
    }
    assert crossed
    for tier in crossed:
        assert (
            simulate_plan(faster(plan, **{tier: 2.0}), OVERLAP).step_s
            < simulate_plan(plan, OVERLAP).step_s
        )


@pytest.mark.parametrize("mode", [Contention.QUEUE, Contention.FAIR])
def test_contention_only_slows(mode: Contention) -> None:
    for name in ("transformer", "experts", "tables"):
        plan = plan_of(name)
        free = simulate_plan(plan, OVERLAP).step_s
        assert simulate_plan(plan, Effects(contention=mode)).step_s >= free * (1 - 1e-12)


def test_utilisation_counts_the_products_of_the_model() -> None:
    plan = plan_of("products")
    found = simulate_plan(plan, SERIAL)
    # Three products, each with two gradients.
    one = 2 * 4096 * 1024 * 4096
    assert found.load.flops == 3 * 3 * one
    peak = Cluster.from_dict(plan.cluster).chip.peak_flops[plan.parameters[0].dtype]
    assert found.rates.utilisation == pytest.approx(found.load.flops / (16 * peak * found.step_s))


def test_utilisation_counts_a_model_by_its_sizes_alone() -> None:
    """Attention whole, three times over: what its fused kernel computes again does not count.

    Source: Chowdhery et al., PaLM, arXiv 2204.02311, appendix B.
    """
    found = simulate_plan(plan_of("transformer"), SERIAL).load
    layer = 4096 * (2 * 32 + 2 * 8) * 128 + 3 * 4096 * 14336
    token = 6 * (4 * layer + 4096 * 128256) + 12 * 4 * 32 * 128 * 1024
    assert found.flops == found.tokens * token


def test_a_plan_without_times_says_how_to_mend_it() -> None:
    plan = plan_of("products")
    old = replace(plan, tensors=tuple(replace(t, update_s=0.0) for t in plan.tensors))
    with pytest.raises(SimulationError, match=r"earlier version.*\n.*\n  fix: plan again"):
        simulate_plan(old, SERIAL)
    with pytest.raises(SimulationError):
        simulate_plan(replace(plan, memory_bytes=()), SERIAL)
