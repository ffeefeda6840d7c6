"""What it costs to let a parameter rest in parts: a share of a latency, however small it is."""

from __future__ import annotations

from functools import cache

import pytest

from costmodel.collectives import Collective, CollectiveModel
from costmodel.collectives.buckets import GATHERED_TOGETHER, bucket_share
from costmodel.redistribution import Shardable
from ir.graph import OpGraph
from ir.layout import Layout
from ir.plan import Plan, PlannedTensor
from ir.plan_enums import Cause
from planner.candidates.layout_tables import LayoutPair, layout_table_of
from planner.lowering.edges import EdgeKind
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.operator_prices import edge_pricer
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.plan_builder import PlanBuilder
from planner.pipeline.preparation import dialect_for
from planner.repricing.other_machine import repriced
from planner.repricing.planned_choice import planned_choice, setting_of
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from topology.catalogue import named_cluster
from topology.cluster import Cluster
from topology.mesh import Mesh, MeshAxis

MACHINES = ("atlas-800t-a2", "dgx-a100", "dgx-h100", "mi300x-platform")


def convolutions(channels: int, blocks: int, batch: int = 64, side: int = 8) -> OpGraph:
    """Bottlenecks of ResNet: three kernels, and behind each a normalisation with its vectors."""
    build = GraphBuilder("bottlenecks")
    x = build.input("x", (batch, channels, side, side))
    for block in range(blocks):
        first, wide = x, channels
        for number, (size, kernel) in enumerate(
            ((channels // 4, 1), (channels // 4, 3), (channels, 1))
        ):
            name = f"b{block}.{number}"
            weight = build.weight(f"{name}.weight", (size, wide, kernel, kernel))
            dims = (batch, size, side, side)
            x = build.op("Conv", (x, weight), dims, pads=(kernel // 2,) * 4)
            scale, shift = (build.weight(f"{name}.{each}", (size,)) for each in ("scale", "shift"))
            x = build.op("Mul", (x, build.op("Reshape", (scale,), (1, size, 1, 1))), dims)
            x = build.op("Add", (x, build.op("Reshape", (shift,), (1, size, 1, 1))), dims)
            wide = size
        x = build.op("Add", (first, x), (batch, channels, side, side))
    return build.build(x)


def layers(width: int, count: int = 3, batch: int = 512) -> OpGraph:
    """Linear layers with their biases."""
    build = GraphBuilder("linear")
    x = build.input("x", (batch, width))
    for layer in range(count):
        x = build.op("MatMul", (x, build.weight(f"{layer}.weight", (width, width))), (batch, width))
        x = build.op("Add", (x, build.weight(f"{layer}.bias", (width,))), (batch, width))
        x = build.op("Relu", (x,), (batch, width))
    return build.build(x)


GRAPHS = {
    "narrow convolutions": convolutions(256, 2), "wide convolutions": convolutions(1024, 1),
    "narrow layers": layers(512), "wide layers": layers(2048, 4, 16384),
}  # fmt: skip


@cache
def plan_of(
    name: str,
    machine: str,
    target: str,
    memory_bytes: float | None = None,
    overlap: str = "auto",
) -> Plan:
    request = SearchRequest(
        target=target, solver="dynamic_programming", time_limit_s=None, overlap=overlap,
        memory_limit_bytes=memory_bytes,
    )  # fmt: skip
    return search(GRAPHS[name], named_cluster(machine, 16), request)


def in_parts(plan: Plan) -> list[PlannedTensor]:
    """Parameters that are gathered for use."""
    gathered = {item.tensor for item in plan.collectives if item.cause == Cause.PARAMETER_GATHER}
    return [tensor for tensor in plan.parameters if tensor.name in gathered]


@pytest.mark.parametrize("target", ["torch", "generic"])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", GRAPHS)
def test_no_vector_rests_in_parts_where_memory_is_plenty(
    name: str, machine: str, target: str
) -> None:
    assert not [t.name for t in in_parts(plan_of(name, machine, target)) if len(t.dims) == 1]


@pytest.mark.parametrize("target", ["torch", "generic"])
@pytest.mark.parametrize("machine", MACHINES[:2])
@pytest.mark.parametrize("name", ["wide layers", "wide convolutions"])
def test_matrices_rest_in_parts_where_memory_is_short(name: str, machine: str, target: str) -> None:
    peak = plan_of(name, machine, target).estimate.peak_memory_bytes
    short = plan_of(name, machine, target, 0.5 * peak)
    assert short.estimate.peak_memory_bytes <= 0.5 * peak
    found = in_parts(short)
    assert found
    assert min(len(tensor.dims) for tensor in found) > 1
    assert_gathers_take_their_latency(short)


def assert_gathers_take_their_latency(plan: Plan) -> None:
    """A message has at least the latency of its group, and these tensors are sent together."""
    mesh = Mesh(tuple(MeshAxis(*axis) for axis in plan.mesh))
    model = CollectiveModel(Cluster.from_dict(plan.cluster), mesh)
    gathered = {tensor.name for tensor in in_parts(plan)}
    for item in plan.collectives:
        if item.cause == Cause.PARAMETER_GATHER or (
            item.cause == Cause.GRADIENT_SYNC and item.tensor in gathered
        ):
            axes = tuple(mesh.axis_index(name) for name in item.axes)
            least_s = model.time_s(Collective(item.kind), 0.0, axes)
            assert item.time_s / item.count >= float(least_s) / GATHERED_TOGETHER > 0


def test_every_parameter_in_parts_pays_its_share_where_all_are_asked_for() -> None:
    """ResNet-50 had gathers of a nanosecond."""
    request = SearchRequest(
        target="torch", global_batch=64, micro_batch="64", pipeline="off", zero="3"
    )
    plan = search_pipeline(GRAPHS["narrow convolutions"], named_cluster("dgx-a100", 16), request)
    assert sum(len(tensor.dims) == 1 for tensor in in_parts(plan)) > 3
    assert_gathers_take_their_latency(plan)


WHOLE, PARTS = Layout(((), ())), Layout(((0, 1), ()))
SUMS = Layout(((), ()), (0, 1))


@pytest.mark.parametrize("machine", MACHINES)
def test_more_bandwidth_is_never_slower_and_nothing_costs_less_than_nothing(machine: str) -> None:
    cluster, mesh = (
        named_cluster(machine, 16),
        Mesh((MeshAxis("server", 2, 0), MeshAxis("card", 8, 1))),
    )
    faster = cluster
    for tier in ("server", "card"):
        faster = faster.with_bandwidth(tier, 3.0)
    rest = layout_table_of([LayoutPair(WHOLE, WHOLE), LayoutPair(PARTS, PARTS)])
    used = layout_table_of([LayoutPair(WHOLE, SUMS)])
    for rows in (16, 1024, 65536):
        tensor = Shardable((rows, 256), "bfloat16", bucket_share(rows * 512))
        kind = EdgeKind(tensor, gradient=True, parameter=True, regathered=True)
        dialect = dialect_for(SearchRequest(target="torch"), 16)
        pricers = [edge_pricer(dialect, mesh, CollectiveModel(c, mesh)) for c in (cluster, faster)]
        slow, fast = (pricer.times(kind, rest, used) for pricer in pricers)
        assert (slow >= fast).all()
        assert (fast > 0).all()
        sent = [pricers[0].transfers(kind, state, used.states[0]) for state in rest.states]
        told = [sum(move.step.time_s for move in moves) for moves in sent]
        assert slow[:, 0].tolist() == pytest.approx(told, rel=1e-12)


@pytest.mark.parametrize("name", ["wide layers", "wide convolutions"])
def test_a_plan_that_is_moved_has_the_prices_of_its_new_machine(name: str) -> None:
    # Without overlap: other messages than the problem there would send are told in their old way.
    peak = plan_of(name, "dgx-a100", "torch", overlap="none").estimate.peak_memory_bytes
    plan = plan_of(name, "dgx-a100", "torch", 0.5 * peak, overlap="none")
    assert in_parts(plan)
    faster = Cluster.from_dict(plan.cluster)
    for tier in ("server", "card"):
        faster = faster.with_bandwidth(tier, 2.0)
    lowered = lower(analyse(plan.graph, training=True), setting_of(plan, faster))
    priced = PlanBuilder(lowered, planned_choice(plan, lowered)).collectives()
    again = repriced(plan, faster).collectives
    assert [item.kind for item in again] == [item.kind for item in priced]
    assert [item.time_s for item in again] == pytest.approx([item.time_s for item in priced])
