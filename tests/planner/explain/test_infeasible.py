"""What would make it fit does, and the reasons are a smallest set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.memory import Optimizer
from ir.dialects import TARGETS
from ir.graph import OpGraph
from ir.plan_estimate import Estimate
from planner.explain import Infeasibility, why_infeasible
from planner.pipeline.feasibility_probe import FeasibilityProbe
from planner.pipeline.pipeline_search import search_pipeline
from planner.request import InfeasibleError, SearchRequest
from planner.search import PreparedModel, prepared_model, search
from planner.solvers import Solution, Solver, solver_by_name
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
    plan = search_pipeline(graph, CLUSTER, replace(asked, micro_batch="auto"))
    assert plan.estimate.peak_memory_bytes <= 60e6


def test_states_that_their_host_has_no_room_for_are_to_blame() -> None:
    asked = SearchRequest(global_batch=64, pipeline="off", offload="on", zero="0")
    tight = replace(CLUSTER, host_memory_bytes=1)
    graph, error = mlp(2), InfeasibleError("nothing fits", 4e8, 6e7, {}, ())
    found = why_infeasible(graph, tight, asked, error, MACHINE.cluster)
    assert [r.name for r in found.reasons] == ["--offload on"]
    assert [fix.change for fix in found.fixes] == ["without --offload on"]
    kept = search_pipeline(graph, tight, replace(asked, offload="auto"))
    assert not any(tensor.host_bytes for tensor in kept.parameters)


def test_a_context_that_is_not_cut_is_to_blame_without_a_global_batch_too() -> None:
    graph = attention_block(batch=1, rows=1024, heads=1)
    asked = SearchRequest(target="generic", context_parallel="off", memory_limit_bytes=1.7e6)
    with pytest.raises(InfeasibleError) as raised:
        search(graph, CLUSTER, asked)
    found = why_infeasible(graph, CLUSTER, asked, raised.value, MACHINE.cluster)
    assert [r.name for r in found.reasons if r.kind == "decision"] == ["--context-parallel off"]
    assert "without --context-parallel off" in [fix.change for fix in found.fixes]


def test_the_memory_that_is_told_is_the_least_with_which_anything_fits(need: float) -> None:
    request = SearchRequest(memory_limit_bytes=need * 0.6)
    amount = next(f.change for f in explained(request).fixes if f.kind == "memory")
    asked, _ = applied(request, amount)
    assert asked.memory_limit_bytes is not None
    search(GRAPH, CLUSTER, asked)
    with pytest.raises(InfeasibleError):
        search(GRAPH, CLUSTER, replace(asked, memory_limit_bytes=asked.memory_limit_bytes - 2**20))


def test_the_largest_half_of_the_batch_that_fits_is_told() -> None:
    graph = attention_block(batch=8, rows=64, heads=4)
    whole = search(graph, CLUSTER, SearchRequest()).estimate.peak_memory_bytes
    asked = SearchRequest(training=False, memory_limit_bytes=whole * 0.25)
    with pytest.raises(InfeasibleError) as raised:
        search(graph, CLUSTER, asked)
    found = why_infeasible(graph, CLUSTER, asked, raised.value, MACHINE.cluster)
    (batch,) = [int(fix.change.split()[1]) for fix in found.fixes if fix.kind == "batch"]
    search(graph, CLUSTER, replace(asked, batch=batch))
    if batch < 4:
        with pytest.raises(InfeasibleError):
            search(graph, CLUSTER, replace(asked, batch=2 * batch))


def test_memory_that_other_cards_have_is_told_last(need: float) -> None:
    memory = CLUSTER.reserved_memory_bytes + int(need * 0.6)
    tight = replace(CLUSTER, chip=replace(CLUSTER.chip, memory_bytes=memory))
    with pytest.raises(InfeasibleError) as raised:
        search(GRAPH, tight, SearchRequest())
    found = why_infeasible(GRAPH, tight, SearchRequest(), raised.value, MACHINE.cluster)
    assert found.fixes[-1].kind == "memory"
    limited = explained(SearchRequest(memory_limit_bytes=need * 0.6))
    assert limited.fixes[0].kind == "memory"


def test_what_a_trial_shares_is_made_ready_once(
    need: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory, targets, optimizers and devices leave the model as it is; every batch has its own."""
    forms: list[int | None] = []

    def counted(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> PreparedModel:
        forms.append(request.batch)
        return prepared_model(graph, cluster, request)

    monkeypatch.setattr("planner.explain.trials.prepared_model", counted)
    found = explained(SearchRequest(memory_limit_bytes=need * 0.6))
    assert found.complete
    assert len(forms) == len(set(forms))
    assert None in forms


def test_only_what_fits_is_solved_for_time(need: float, monkeypatch: pytest.MonkeyPatch) -> None:
    request = SearchRequest(memory_limit_bytes=need * 0.6)
    with pytest.raises(InfeasibleError) as raised:
        search(GRAPH, CLUSTER, request)
    solved: list[str] = []

    def counted(name: str) -> Solver:
        solved.append(name)
        return solver_by_name(name)

    monkeypatch.setattr("planner.pipeline.batch_search.solver_by_name", counted)
    found = why_infeasible(GRAPH, CLUSTER, request, raised.value, MACHINE.cluster)
    assert found.complete
    assert len(solved) <= 2 * len(found.fixes) + 2


def test_every_trial_is_announced(need: float) -> None:
    said: list[str] = []
    request = SearchRequest(memory_limit_bytes=need * 0.6)
    with pytest.raises(InfeasibleError) as raised:
        search(GRAPH, CLUSTER, request)
    found = why_infeasible(
        GRAPH, CLUSTER, request, raised.value, MACHINE.cluster, report=said.append
    )
    same = {fix.change for fix in found.fixes if fix.change == "--target generic"}
    assert {f"trying {fix.change}" for fix in found.fixes if fix.change not in same} <= set(said)


@pytest.mark.parametrize("number", [1, 2])
def test_an_interruption_ends_the_look_with_what_was_found(
    number: int, need: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = SearchRequest(memory_limit_bytes=need * 0.6)
    whole = explained(request)
    tried: list[FeasibilityProbe] = []

    def impatient(self: FeasibilityProbe, limit_bytes: float | None = None) -> Estimate | None:
        tried.append(self)
        if len(tried) > number:
            raise KeyboardInterrupt
        return estimate(self, limit_bytes)

    estimate = FeasibilityProbe.estimate
    monkeypatch.setattr(FeasibilityProbe, "estimate", impatient)
    found = explained(request)
    assert found.interrupted
    assert not found.complete
    assert not whole.interrupted
    assert len(tried) == number + 1
    assert found.fixes == whole.fixes[: len(found.fixes)]
    assert len(found.fixes) < len(whole.fixes)
    assert found.needed_bytes == whole.needed_bytes


def test_an_interrupted_solver_that_has_an_answer_ends_the_look_with_it(
    need: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        name = "interrupted"

        def solve(self, *given: object) -> Solution:
            return replace(solver_by_name("portfolio").solve(*given), interrupted=True)  # type: ignore[arg-type]

    request = SearchRequest(memory_limit_bytes=need * 0.6)
    with pytest.raises(InfeasibleError) as raised:
        search(GRAPH, CLUSTER, request)
    monkeypatch.setattr("planner.pipeline.batch_search.solver_by_name", lambda _: Interrupted())
    found = why_infeasible(GRAPH, CLUSTER, request, raised.value, MACHINE.cluster)
    assert found.interrupted
    assert len(found.fixes) == 1


def test_nobody_looks_again_who_was_interrupted(need: float) -> None:
    error = InfeasibleError("nothing fits", 4e8, 6e7, {"weights": 1.0}, (), interrupted=True)
    found = why_infeasible(
        GRAPH, CLUSTER, SearchRequest(memory_limit_bytes=need * 0.6), error, MACHINE.cluster
    )
    assert (found.fixes, found.interrupted) == ((), True)
    assert [reason.name for reason in found.reasons] == ["weights"]


@pytest.mark.parametrize("cost", ["memory", "mindspore"])
def test_at_another_cost_the_same_fits(cost: str, need: float) -> None:
    request = SearchRequest(memory_limit_bytes=need * 0.6)
    changes = [fix.change for fix in explained(request).fixes if fix.kind != "target"]
    found = explained(replace(request, cost=cost))
    assert [fix.change for fix in found.fixes if fix.kind != "target"] == changes


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
