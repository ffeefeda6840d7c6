"""What is found soon agrees with what a search finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ir.graph import OpGraph
from ir.plan_estimate import Estimate
from planner.pipeline.feasibility_probe import NEAR, FeasibilityProbe
from planner.pipeline.one_batch import prepared_model, search_batch
from planner.request import InfeasibleError, SearchRequest
from planner.solvers.least_peak import LeastPeak, least_peak
from tests.builders import attention_block, mlp
from topology.catalogue import named_machine

CLUSTER = named_machine("atlas-800t-a2").cluster(4)
GRAPHS = {
    "mlp": mlp(2, batch=2048),
    "attention": attention_block(batch=4, rows=64, heads=4),
}
SHARES = (0.2, 0.3, 0.4, 0.5, 0.52, 0.7, 1.0)
WHOLE = SearchRequest(pins=(("op_matmul_0", ((1, 1), (1, 1))),))


def searched(graph: OpGraph, request: SearchRequest) -> Estimate | None:
    try:
        return search_batch(graph, CLUSTER, request).estimate
    except InfeasibleError:
        return None


def soon(graph: OpGraph, request: SearchRequest) -> FeasibilityProbe | None:
    try:
        return FeasibilityProbe(prepared_model(graph, CLUSTER, request), CLUSTER, request)
    except InfeasibleError:
        return None


@pytest.mark.parametrize("target", ["mindspore", "jax", "torch"])
@pytest.mark.parametrize("name", GRAPHS)
def test_it_fits_where_a_search_finds_a_plan_and_the_plan_is_near_the_fastest(
    name: str, target: str
) -> None:
    graph, request = GRAPHS[name], SearchRequest(target=target)
    whole = search_batch(graph, CLUSTER, request).estimate.peak_memory_bytes
    verdicts = set()
    for share in SHARES:
        asked = replace(request, memory_limit_bytes=whole * share)
        best, found = searched(graph, asked), soon(graph, asked)
        estimate = None if found is None else found.estimate()
        verdicts.add(best is not None)
        assert (found is not None and found.fits()) is (best is not None)
        assert (estimate is None) is (best is None)
        if best is not None and estimate is not None:
            assert estimate.peak_memory_bytes <= whole * share * (1 + 1e-12)
            assert estimate.step_time_s <= best.step_time_s * (1 + 2 * NEAR)
    assert verdicts == {True, False}


def test_what_is_pinned_is_kept() -> None:
    graph, open_request = GRAPHS["mlp"], SearchRequest()
    limit = search_batch(graph, CLUSTER, open_request).estimate.peak_memory_bytes
    free, held = (
        soon(graph, replace(asked, memory_limit_bytes=limit)) for asked in (open_request, WHOLE)
    )
    assert free is not None
    assert held is not None
    assert held.least().bound_bytes > free.least().bound_bytes
    fastest, pinned = free.estimate(2 * limit), held.estimate(2 * limit)
    assert fastest is not None
    assert pinned is not None
    assert fastest.step_time_s < pinned.step_time_s


def test_no_plan_has_less_than_the_least_peak_and_one_fits_into_little_more() -> None:
    graph = GRAPHS["mlp"]
    found = soon(graph, SearchRequest())
    assert found is not None
    least = found.least()
    assert found.estimate(least.bound_bytes * 0.999) is None
    assert searched(graph, SearchRequest(memory_limit_bytes=least.bound_bytes * 0.999)) is None
    assert found.estimate(least.peak_bytes * 1.001) is not None


def test_nothing_is_solved_for_time_where_the_least_peak_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved: list[str] = []
    monkeypatch.setattr("planner.pipeline.batch_search.solver_by_name", solved.append)
    found = soon(GRAPHS["mlp"], SearchRequest())
    assert found is not None
    assert found.estimate(found.least().bound_bytes * 0.99) is None
    assert not solved


def test_a_choice_of_little_memory_that_nothing_can_carry_out_is_no_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The least peak disregards time, and so what takes for ever."""
    monkeypatch.setattr("planner.pipeline.feasibility_probe.UNREACHABLE_S", 0.0)
    found = soon(GRAPHS["mlp"], SearchRequest())
    assert found is not None
    assert not found.fits()
    assert found.estimate() is None


def test_finer_meshes_are_tried_where_the_first_is_a_little_too_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, asked = GRAPHS["attention"], SearchRequest(target="generic")
    known, found = soon(graph, asked), soon(graph, asked)
    assert known is not None
    assert found is not None
    assert len(found.meshes) > 1
    least = known.least().bound_bytes
    looked: list[LeastPeak] = []

    def counted(*given: object) -> LeastPeak:
        looked.append(least_peak(*given))  # type: ignore[arg-type]
        return looked[-1]

    monkeypatch.setattr("planner.pipeline.feasibility_probe.least_peak", counted)
    assert found.estimate(least * 0.5) is None
    assert len(looked) == 1
    found.estimate(least * 0.99)
    assert len(looked) == 1 + len(found.meshes)


def test_the_least_peak_is_sought_once_for_all_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = soon(GRAPHS["mlp"], SearchRequest())
    assert found is not None
    least = found.least()
    monkeypatch.setattr("planner.pipeline.feasibility_probe.least_peak", None)
    assert found.estimate(least.bound_bytes / 2) is None
    assert found.estimate(least.peak_bytes * 1.1) is not None
