"""Optimizer state on the host: what it costs, what it frees, and how it is decided."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costmodel.memory import Optimizer
from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from exporters.errors import ExportError
from exporters.formats import FORMATS
from ir.graph import Tensor
from ir.plan import Plan
from ir.plan_enums import Cause
from ir.plan_file import PlanFileError, plan_from_json, plan_to_json
from ir.plan_stages import part_times, retimed
from planner.explain import why_infeasible
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, NodeKind
from planner.lowering.optimizer_states import StateOptions
from planner.lowering.parameters import STATES, Parameters, brought_back, host_bytes
from planner.pipeline.configuration import solved
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration
from planner.repricing.other_machine import repriced
from planner.request import InfeasibleError, RequestError, SearchRequest
from tests.builders import mlp
from tests.planner.pipeline.test_pipeline_search import machine
from topology.catalogue import named_cluster
from topology.cluster import Cluster

WIDE = 4096
STATE = 8 * WIDE * WIDE
"""Two moments of a weight."""


def computer(devices: int, memory: float | None = None) -> Cluster:
    """Without buffers for communication."""
    return replace(machine(devices, memory), communicator_buffer_bytes=0)


def whole(memory: float | None, devices: int = 2, layers: int = 3, **asked: Any) -> Plan:
    graph = mlp(layers, batch=8, width=WIDE, hidden=WIDE)
    return search_pipeline(
        graph, computer(devices, memory), SearchRequest(**{"global_batch": 8, **asked})
    )


def step_s(memory: float, **asked: Any) -> float:
    try:
        return whole(memory, **asked).estimate.step_time_s
    except InfeasibleError:
        return math.inf


def lowered(**asked: Any) -> Lowered:
    """Both stages of a small network, every level of ZeRO open."""
    request = SearchRequest(global_batch=8, pipeline="2", micro_batch="2", interleave="1", **asked)
    task = PipelineSearch(mlp(4, batch=8, width=256, hidden=256), machine(4), request)
    return (
        solved(task, Configuration(2, 2, 4), (2, task.true_micro(2).segments.count))
        .groups[0]
        .lowered
    )


def offered(plain: Lowered, offload: str, shared: Collection[str] = ()) -> Lowered:
    """The problem with another place for optimizer state."""
    states = StateOptions("auto", offload, frozenset(shared))
    return lower(plain.liveness, replace(plain.setting, states=states))


@pytest.mark.parametrize("target", ["mindspore", "generic"])
def test_state_leaves_the_device_and_takes_its_bytes_over_the_link(target: str) -> None:
    plain = lowered(target=target)
    both = offered(plain, "auto")
    rate = plain.setting.cluster.chip.host_bandwidth_bytes_per_s
    assert rate
    seen = 0
    for number, node in enumerate(both.nodes):
        table = both.problem.node_tables[both.problem.node_table_of[number]]
        old = plain.problem.node_tables[plain.problem.node_table_of[number]]
        if node.kind is not NodeKind.PARAMETER:
            assert np.array_equal(table.time_s, old.time_s)
            continue
        seen += 1
        count = len(old.time_s)
        assert len(node.columns) == len(table.time_s) == 2 * count
        held = np.sum(old.memory_bytes[STATES], axis=0)
        freed = sum(a[:count] - a[count:] for a in table.memory_bytes)
        assert np.asarray(freed).tolist() == held.tolist()
        spent_s = (table.time_s[count:] - old.time_s) * both.setting.micro_batches
        assert spent_s.tolist() == pytest.approx((held / rate).tolist(), rel=1e-9)
        every = range(2 * count)
        assert [host_bytes(both, node, own) for own in every] == [0.0] * count + held.tolist()
    assert seen == 4
    for edge, table_of, old_of in zip(
        both.edges, both.problem.edge_table_of, plain.problem.edge_table_of, strict=True
    ):
        old_s = plain.problem.edge_tables[old_of].time_s
        twice = both.nodes[edge.source].kind is NodeKind.PARAMETER
        expected = np.concatenate([old_s, old_s]) if twice else old_s
        assert np.array_equal(both.problem.edge_tables[table_of].time_s, expected)


def test_what_is_shared_between_stages_and_what_has_no_state_stays() -> None:
    plain = lowered()
    names = [n.name for n in plain.nodes if n.kind is NodeKind.PARAMETER]
    kept = offered(plain, "on", names[:1])
    moved = {n.name for n in kept.nodes if n.columns.host.all()}
    assert moved == set(names[1:])
    nothing = lowered(optimizer=Optimizer.SGD)
    assert offered(nothing, "on").problem.sizes == nothing.problem.sizes


@pytest.mark.parametrize("memory", [0.25e9])
def test_the_choice_is_the_best_of_all_sets_of_parameters(
    memory: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every set of parameters with state on the host, everything else decided for each."""
    found = step_s(memory, offload="auto", global_batch=2, layers=2)
    names = [t.name for t in mlp(2, batch=8, width=WIDE, hidden=WIDE).parameters]
    best = math.inf
    for count in range(len(names) + 1):
        for chosen in itertools.combinations(names, count):

            def moved(own: Parameters, tensor: Tensor, chosen: tuple[str, ...] = chosen) -> bool:
                return (
                    own.setting.states is not None
                    and own.liveness.origin(tensor.name).name in chosen
                )

            with monkeypatch.context() as patch:
                patch.setattr(Parameters, "_is_movable", moved)
                best = min(best, step_s(memory, offload="on", global_batch=2, layers=2))
    assert found == pytest.approx(best, rel=1e-9)
    assert found <= step_s(memory, offload="off", global_batch=2, layers=2) * (1 + 1e-12)


def test_it_makes_room_where_nothing_fits_and_is_named() -> None:
    with pytest.raises(InfeasibleError) as error:
        whole(0.2e9, layers=2, global_batch=2)
    graph, asked = mlp(2, batch=8, width=WIDE, hidden=WIDE), SearchRequest(global_batch=2)
    why = why_infeasible(
        graph, computer(2, 0.2e9), asked, error.value, lambda devices: computer(devices, 0.2e9)
    )
    assert [fix.change for fix in why.fixes] == ["--offload auto"]
    plan = whole(0.2e9, layers=2, global_batch=2, offload="auto")
    assert any(tensor.host_bytes for tensor in plan.parameters)
    assert plan.estimate.peak_memory_bytes <= 0.2e9


def test_the_plan_says_what_is_on_the_host_and_how_long_it_takes() -> None:
    plan = whole(None, devices=4, pipeline="2", micro_batch="2", interleave="1", offload="on",
                 zero="0")  # fmt: skip
    assert plan_from_json(plan_to_json(plan)) == plan
    chip = Cluster.from_dict(plan.cluster).chip
    assert chip.host_bandwidth_bytes_per_s == pytest.approx(25.6e9)
    for tensor in plan.parameters:
        pieces = STATE / tensor.host_bytes
        assert pieces in {1, 2}
        assert tensor.host_s == pytest.approx(tensor.host_bytes / 25.6e9)
    own = plan.estimate.time_by_cause
    assert own[Cause.HOST] > 0
    assert sum(own.values()) == pytest.approx(plan.estimate.step_time_s)
    plain = whole(None, devices=4, pipeline="2", micro_batch="2", interleave="1", zero="0")
    assert "host_bytes" not in plan_to_json(plain)
    text = plan_to_json(plan).replace('"host_bytes": ', '"host_bytes": -', 1)
    with pytest.raises(PlanFileError, match="a host cannot hold"):
        plan_from_json(text)


def test_the_simulation_has_a_stream_for_it() -> None:
    plan = whole(None, layers=6, pipeline="off", micro_batch="2", offload="on", zero="0")
    kept = plan.parameters[0].name
    plan = replace(
        plan,
        tensors=tuple(
            replace(t, host_bytes=0.0, host_s=0.0) if t.name == kept else t for t in plan.tensors
        ),
    )
    plan = retimed(plan)
    alone = simulate_plan(plan, Effects(overlap=False))
    assert alone.step_s == pytest.approx(sum(part_times(plan)) * 4, rel=1e-6)
    assert any(c.cause == Cause.HOST for c in alone.account.communication)
    beside = simulate_plan(plan, Effects())
    update_s = sum(t.update_s for t in plan.parameters)
    copies = [
        number
        for number, work in enumerate(beside.timeline.graph.activities)
        if work.cause == Cause.HOST
    ]
    passes_s = alone.step_s - sum(t.update_s + t.host_s for t in plan.parameters)
    assert float(beside.timeline.start_s[copies].min()) >= passes_s * (1 - 1e-9)
    assert 0 < alone.step_s - beside.step_s <= update_s * (1 + 1e-9)


def test_on_another_machine_it_takes_as_long_as_the_link_there() -> None:
    plan = whole(None, devices=4, pipeline="2", offload="on")
    cluster = machine(4)
    chip = replace(cluster.chip, host_bandwidth_bytes_per_s=12.8e9)
    slow = repriced(plan, replace(cluster, chip=chip))
    for old, new in zip(plan.parameters, slow.parameters, strict=True):
        assert new.host_s == pytest.approx(2 * old.host_s)
    unknown = replace(cluster, chip=replace(chip, host_bandwidth_bytes_per_s=None))
    with pytest.raises(RequestError, match="no link to it"):
        repriced(plan, unknown)


def test_a_chip_without_a_known_link_says_so() -> None:
    cluster = machine(2)
    unknown = replace(cluster, chip=replace(cluster.chip, host_bandwidth_bytes_per_s=None))
    graph = mlp(3, batch=8, width=WIDE, hidden=WIDE)
    with pytest.raises(RequestError, match="no link to the memory of its host is known"):
        search_pipeline(graph, unknown, SearchRequest(global_batch=8, offload="on"))
    asked = SearchRequest(global_batch=8, offload="auto", pipeline="2")
    plan = search_pipeline(graph, unknown, asked)
    open_to_all = search_pipeline(mlp(2), unknown, SearchRequest(global_batch=64, offload="auto"))
    for found in (plan, open_to_all):
        assert any("optimizer state stays on the devices" in note for note in found.notes)
    usual = search_pipeline(graph, cluster, replace(asked, offload="off"))
    assert plan.estimate == usual.estimate


def test_formats_that_cannot_say_it_refuse() -> None:
    plan = whole(None, offload="on")
    for name in ("mindspore", "mindspore-apply", "jax", "torch", "megatron"):
        with pytest.raises(ExportError, match="is in host memory"):
            FORMATS[name].writer(plan, None)
    FORMATS["table"].writer(plan, None)


def test_room_that_is_left_takes_the_largest_states_back() -> None:
    both = offered(lowered(), "auto")
    choice = [0] * len(both.nodes)
    names: dict[int, float] = {}
    for number, node in enumerate(both.nodes):
        if node.kind is NodeKind.PARAMETER:
            choice[number] = int(np.flatnonzero(node.columns.host)[0])
            names[number] = host_bytes(both, node, choice[number])
    every = list(names)
    assert brought_back(both, choice, every, 0.0) == {}
    assert brought_back(both, choice, every, math.inf) == dict.fromkeys(names, 0)
    room = 2.5 * max(names.values())
    back = brought_back(both, choice, every, room)
    held = sum(names[number] for number in back)
    left = [names[number] for number in every if number not in back]
    assert held <= room < held + min(left)
    always = offered(lowered(), "on")
    assert brought_back(always, [0] * len(always.nodes), every, math.inf) == {}


def test_the_memory_of_the_host_is_respected() -> None:
    """Three weights: of the memory of the host that falls to a device each has its share."""
    graph = mlp(3, hidden=256)
    asked = SearchRequest(
        global_batch=2**20, micro_batch=str(2**18), pipeline="off", offload="on", zero="0"
    )
    free = search_pipeline(graph, computer(2), asked)
    every = sum(t.host_bytes for t in free.parameters)
    assert every == sum(8 * t.elements for t in graph.parameters)
    for share in (1.0, 0.8, 0.5):
        room = replace(computer(2), host_memory_bytes=int(share * every))
        plan = search_pipeline(graph, room, asked)
        assert 0 < sum(t.host_bytes for t in plan.parameters) <= share * every
    tight = replace(computer(2), host_memory_bytes=int(0.45 * every))
    with pytest.raises(InfeasibleError, match="memory of the host") as error:
        search_pipeline(graph, tight, asked)
    assert error.value.remedies[0].endswith("--offload auto")
    kept = search_pipeline(graph, tight, replace(asked, offload="auto"))
    assert not any(t.host_bytes for t in kept.parameters)


def test_hosts_are_known_where_a_source_tells_of_them() -> None:
    assert named_cluster("dgx-h100", 16).host_memory_bytes == 250 * 10**9
    assert named_cluster("atlas-800t-a2", 16).host_memory_bytes is None
    assert named_cluster("atlas-800t-a2", 16).chip.host_bandwidth_bytes_per_s == 0.8 * 32e9
    assert named_cluster("atlas-800-9000", 8).chip.host_bandwidth_bytes_per_s == 19.3e9


def test_a_step_that_was_hoped_for_and_cannot_be_had_hides_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Buffers of communication take 0.4 GB for each group, which bounds of shapes leave aside."""
    graph = mlp(3, batch=8, width=WIDE, hidden=WIDE)

    def seconds(**asked: str) -> float:
        request = SearchRequest(global_batch=4, offload="on", **asked)  # type: ignore[arg-type]
        try:
            return search_pipeline(graph, machine(2, 0.39e9), request).estimate.step_time_s
        except InfeasibleError:
            return math.inf

    shapes = (("off", "1"), ("off", "2"), ("off", "4"), ("2", "1"), ("2", "2"))
    each = [seconds(pipeline=p, micro_batch=m) for p, m in shapes]
    assert math.isinf(each[0])
    assert math.isfinite(min(each))
    assert seconds() == pytest.approx(min(each), rel=1e-9)
