"""What would make it fit does, and the reasons are a smallest set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.memory import Optimizer
from planner.dialects import TARGETS
from planner.explain import Infeasibility, why_infeasible
from planner.joint import search_whole
from planner.request import InfeasibleError, SearchRequest
from planner.search import search
from tests.builders import attention_block, mlp
from topology.catalogue import named_machine
from topology.cluster import Cluster

GRAPH = mlp(2, batch=16)
MACHINE = named_machine("atlas-800t-a2")
CLUSTER = MACHINE.cluster(4)
TOO_MUCH = (("op_matmul_0", ((4, 1), (1, 1))), ("op_relu_1", ((4, 1),)))


def explained(request: SearchRequest) -> Infeasibility:
    with pytest.raises(InfeasibleError) as raised:
        search(GRAPH, CLUSTER, request)
    return why_infeasible(GRAPH, CLUSTER, request, raised.value, MACHINE.cluster)


def applied(request: SearchRequest, change: str) -> tuple[SearchRequest, Cluster]:
    option, _, value = change.partition(" ")
    if option == "--memory":
        amount = float(value[:-3]) * {"MiB": 2**20, "GiB": 2**30}[value[-3:]]
        return replace(request, memory_limit_bytes=amount), CLUSTER
    if option == "--batch":
        return replace(request, batch=int(value)), CLUSTER
    if option == "--devices":
        return request, MACHINE.cluster(int(value))
    if option == "--target":
        return replace(request, target=value), CLUSTER
    if option == "--optimizer":
        return replace(request, optimizer=Optimizer(value)), CLUSTER
    assert option == "without"
    return replace(request, pins=TOO_MUCH[1:]), CLUSTER


@pytest.fixture(scope="module")
def need() -> float:
    return search(GRAPH, CLUSTER, SearchRequest()).estimate.peak_memory_bytes


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_every_change_was_tried_and_fits(need: float, share: float) -> None:
    request = SearchRequest(memory_limit_bytes=need * share)
    found = explained(request)
    assert found.fixes
    for fix in found.fixes:
        asked, cluster = applied(request, fix.change)
        plan = search(GRAPH, cluster, asked)
        assert plan.estimate.peak_memory_bytes <= plan.estimate.memory_limit_bytes
        assert fix.kind in {"memory", "batch", "devices", "target", "optimizer"}
        assert fix.step_time_s > 0


def test_the_pin_to_blame_is_named_and_the_harmless_one_is_not(need: float) -> None:
    found = explained(SearchRequest(memory_limit_bytes=need * 1.01, pins=TOO_MUCH))
    blamed = [reason for reason in found.reasons if reason.kind == "pin"]
    assert [reason.name for reason in blamed] == ["--pin 'op_matmul_0=((4,1),(1,1))'"]
    assert found.fixes[0].kind == "pin"
    assert "op_matmul_0" in found.fixes[0].change


def test_consumers_of_memory_are_named_the_largest_first(need: float) -> None:
    found = explained(SearchRequest(memory_limit_bytes=need * 0.3))
    held = [reason.nbytes or 0.0 for reason in found.reasons if reason.kind == "memory"]
    assert held == sorted(held, reverse=True)
    assert found.needed_bytes > found.available_bytes
    assert {reason.kind for reason in found.reasons} <= {"memory", "target"}


def test_targets_that_are_offered_differ_from_the_one_asked(need: float) -> None:
    found = explained(SearchRequest(memory_limit_bytes=need * 0.6))
    for fix in found.fixes:
        if fix.kind == "target":
            assert TARGETS[fix.change.split()[1]] != TARGETS["mindspore"]


def test_a_decision_that_is_to_blame_is_named() -> None:
    """A whole batch at once is too large for two stages, whatever else is decided."""
    asked = SearchRequest(
        global_batch=2**16, micro_batch=str(2**16), pipeline="2", interleave="1",
        memory_limit_bytes=60e6,
    )  # fmt: skip
    graph, error = mlp(2), InfeasibleError("nothing fits", 4e8, 6e7, {"activations": 3e8}, ())
    found = why_infeasible(graph, CLUSTER, asked, error, MACHINE.cluster)
    assert [(r.kind, r.name) for r in found.reasons] == [
        ("decision", "--micro-batch 65536"), ("memory", "activations"),
    ]  # fmt: skip
    assert [fix.change for fix in found.fixes] == ["without --micro-batch 65536"]
    plan = search_whole(graph, CLUSTER, replace(asked, micro_batch="auto"))
    assert plan.estimate.peak_memory_bytes <= 60e6


def test_states_that_their_host_has_no_room_for_are_to_blame() -> None:
    asked = SearchRequest(global_batch=64, pipeline="off", offload="on", zero="0")
    tight = replace(CLUSTER, host_memory_bytes=1)
    graph, error = mlp(2), InfeasibleError("nothing fits", 4e8, 6e7, {}, ())
    found = why_infeasible(graph, tight, asked, error, MACHINE.cluster)
    assert [r.name for r in found.reasons] == ["--offload on"]
    assert [fix.change for fix in found.fixes] == ["without --offload on"]
    kept = search_whole(graph, tight, replace(asked, offload="auto"))
    assert not any(tensor.host_bytes for tensor in kept.parameters)


def test_a_context_that_is_not_cut_is_to_blame_without_a_global_batch_too() -> None:
    graph = attention_block(batch=1, rows=1024, heads=1)
    asked = SearchRequest(target="generic", context_parallel="off", memory_limit_bytes=1.7e6)
    with pytest.raises(InfeasibleError) as raised:
        search(graph, CLUSTER, asked)
    found = why_infeasible(graph, CLUSTER, asked, raised.value, MACHINE.cluster)
    assert [r.name for r in found.reasons if r.kind == "decision"] == ["--context-parallel off"]
    assert "without --context-parallel off" in [fix.change for fix in found.fixes]


def test_the_effort_limits_the_trials_and_not_the_clock(
    need: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = SearchRequest(memory_limit_bytes=need * 0.6)
    assert explained(request).complete
    monkeypatch.setattr("planner.explain.infeasible.TRIALS", (2, 2))
    few, again = explained(request), explained(request)
    assert not few.complete
    assert few == again
    assert len(few.fixes) <= 2
    assert len(explained(replace(request, effort=10)).fixes) > len(few.fixes)
