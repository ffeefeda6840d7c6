"""Which meshes are tried, and in what order."""

from __future__ import annotations

import pytest

import planner.pipeline.batch_search
from planner.request import SearchRequest
from planner.search import search
from tests.exporters.small_networks import language_model
from topology.catalogue import named_cluster

FIRST = "server0 2 x server1 2 x card0 2 x card1 2 x card2 2"
COARSER = "server 4 x card0 2 x card1 2 x card2 2"


def tried(request: SearchRequest) -> tuple[float, str, list[str]]:
    """Peak bytes of the plan, its mesh, and what was reported of meshes."""
    lines: list[str] = []
    cluster = named_cluster("atlas-800t-a2", 32)
    plan = search(language_model(), cluster, request, lines.append)
    mesh = " x ".join(f"{name} {size}" for name, size, _ in plan.mesh)
    return plan.estimate.peak_memory_bytes, mesh, [x for x in lines if x.startswith("mesh")]


def test_a_mesh_that_is_solved_well_is_the_only_one() -> None:
    _, mesh, reported = tried(SearchRequest())
    assert mesh == FIRST
    assert {line.partition(":")[0] for line in reported} == {f"mesh {FIRST}"}


def test_a_coarser_mesh_comes_first_where_the_finer_is_too_hard_and_memory_binds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peak, _, _ = tried(SearchRequest())
    monkeypatch.setattr(planner.pipeline.batch_search, "WIDE_GAP", -1.0)  # every gap is too wide
    found, mesh, reported = tried(SearchRequest(memory_limit_bytes=0.9 * peak))
    assert mesh == COARSER
    assert found <= 0.9 * peak
    assert not any(f"{FIRST}: the fastest plan needs" in line for line in reported)


def test_of_two_meshes_that_were_tried_the_faster_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner.pipeline.batch_search, "WIDE_GAP", -1.0)
    _, mesh, reported = tried(SearchRequest())
    assert {line.partition(":")[0] for line in reported} == {f"mesh {FIRST}", f"mesh {COARSER}"}
    assert mesh == FIRST
