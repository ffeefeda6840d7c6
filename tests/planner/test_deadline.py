"""One time limit holds for a whole command: what comes after a search is told what is left."""

from __future__ import annotations

import pytest

from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_estimate import Estimate
from planner.explain import why_infeasible
from planner.explain.questions import explain_infeasible, with_fixes
from planner.pipeline.feasibility_probe import FeasibilityProbe
from planner.pipeline.objectives import least_memory
from planner.pipeline.one_batch import search_batch
from planner.request import LEAST_S, Deadline, InfeasibleError, SearchRequest
from planner.requests.options.searches import SearchOptions
from planner.requests.searches import question
from tests.builders import mlp
from topology.catalogue import named_machine
from topology.cluster import Cluster

GRAPH = mlp(2, batch=16)
MACHINE = named_machine("atlas-800t-a2")
CLUSTER = MACHINE.cluster(4)
ERROR = InfeasibleError("nothing fits", 4e8, 6e7, {"weights": 1.0}, ("more",))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that a test lets pass."""
    now = [100.0]
    monkeypatch.setattr("planner.request.now_s", lambda: now[0])
    return now


def test_what_is_left_ends_at_the_same_moment(clock: list[float]) -> None:
    whole = Deadline.after(30.0)
    clock[0] += 20.0
    assert (whole.left_s, whole.is_over) == (10.0, False)
    assert Deadline.after(whole.left_s) == whole
    clock[0] += 20.0
    assert (whole.left_s, whole.solver_s, whole.is_over) == (0.0, LEAST_S, True)
    assert Deadline.after(None).left_s is None
    assert not Deadline.after(None).is_over


@pytest.mark.fast
def test_the_look_for_remedies_ends_at_the_time_limit_and_says_so(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float | None] = []

    def slow(self: FeasibilityProbe, _: float | None = None) -> Estimate | None:
        tried.append(self.request.time_limit_s)
        clock[0] += 12.0
        return None

    monkeypatch.setattr(FeasibilityProbe, "estimate", slow)
    request = SearchRequest(training=False, memory_limit_bytes=1e5, time_limit_s=30.0)
    with pytest.raises(InfeasibleError) as raised:
        search_batch(GRAPH, CLUSTER, request)
    found = why_infeasible(GRAPH, CLUSTER, request, raised.value, MACHINE.cluster)
    assert len(tried) == 3
    assert (found.out_of_time, found.complete, found.interrupted) == (True, False, False)
    assert with_fixes(raised.value, found).out_of_time


def test_a_look_that_is_done_in_time_says_nothing_of_the_clock(clock: list[float]) -> None:
    request = SearchRequest(training=False, memory_limit_bytes=1e5, time_limit_s=30.0)
    with pytest.raises(InfeasibleError) as raised:
        search_batch(GRAPH, CLUSTER, request)
    found = why_infeasible(GRAPH, CLUSTER, request, raised.value, MACHINE.cluster)
    assert (found.out_of_time, found.complete) == (False, True)
    assert clock == [100.0]


def test_changes_of_a_global_batch_share_the_time_limit_too(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float | None] = []

    def nothing(_: OpGraph, __: Cluster, request: SearchRequest, **___: bool) -> None:
        limits.append(request.time_limit_s)
        clock[0] += 12.0
        raise ERROR

    monkeypatch.setattr("planner.explain.trials.search_pipeline", nothing)
    request = SearchRequest(global_batch=2**20, time_limit_s=30.0)
    found = why_infeasible(GRAPH, CLUSTER, request, ERROR, MACHINE.cluster)
    assert limits == [30.0, 18.0, 6.0]
    assert found.out_of_time
    assert with_fixes(ERROR, found).remedies == ERROR.remedies


@pytest.mark.fast
def test_the_least_memory_is_sought_within_one_time_limit(clock: list[float]) -> None:
    limits: list[float | None] = []
    plan = search_batch(GRAPH, CLUSTER, SearchRequest())

    def found(request: SearchRequest) -> Plan:
        limits.append(request.time_limit_s)
        clock[0] += 10.0
        return plan

    least_memory(SearchRequest(cost="memory", time_limit_s=30.0), found)
    assert limits[:4] == [30.0, 20.0, 10.0, 0.0]


def test_a_command_has_one_time_limit_from_its_first_question(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its search and its look for remedies are told what is left, each time."""
    told: list[float | None] = []

    class Model:
        name = "net"

        def graph(self, _: object) -> object:
            clock[0] += 5.0
            return GRAPH

    def looked(_graph: object, _cluster: object, request: SearchRequest, *_: object, **__: object):  # type: ignore[no-untyped-def]
        told.append(request.time_limit_s)
        clock[0] += 20.0
        raise ERROR

    monkeypatch.setattr("planner.requests.searches.search", looked)
    monkeypatch.setattr("planner.explain.questions.why_infeasible", looked)
    monkeypatch.setattr("planner.requests.searches.told_by", lambda *_: [])
    options = SearchOptions(devices=4, time_limit=30.0)
    asked = question(Model(), options)  # type: ignore[arg-type]
    with pytest.raises(InfeasibleError):
        asked.plan()
    with pytest.raises(InfeasibleError):
        explain_infeasible(asked, options, None, ERROR)
    assert told == [25.0, 0.0]
