"""Which device each rank is on is a decision: MindSpore's cuts follow the order of ranks."""

from dataclasses import replace

import pytest

from ir.dialects import MINDSPORE, Dialect
from ir.graph import OpGraph
from planner.pipeline import one_batch as at_once
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.cases import nets
from topology import named_cluster
from topology.mesh import prime_mesh

pytestmark = pytest.mark.fast

CLUSTER = named_cluster("atlas-800-9000", 8)
REQUEST = SearchRequest(target="mindspore", dtype="float16")


def perceptron() -> OpGraph:
    """Weights against rows such that one cut is best over the pairs between the rings."""
    build = GraphBuilder("perceptron", "float16")
    x = build.input("x", (256, 512))
    x = nets.dense(build, x, "up", 16384, bias=False)
    return nets.squared_error(build, nets.dense(build, x, "down", 512, bias=False))


def as_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks in the order of devices alone."""
    plain = replace(MINDSPORE, name="plain")

    def meshes(self: Dialect, cluster: object) -> tuple[object, ...]:
        return (prime_mesh(CLUSTER, self.max_axes),)

    monkeypatch.setattr(Dialect, "meshes", meshes)
    monkeypatch.setattr(at_once, "dialect_for", lambda *_, **__: plain)


def test_the_best_order_of_ranks_is_found_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(perceptron(), CLUSTER, REQUEST)
    assert found.rank_order == (0, 4, 1, 5, 2, 6, 3, 7)
    assert [tier for _, _, tier in found.mesh] == [1, 1, 0]
    assert any("the job needs the rank table of this order" in note for note in found.notes)
    with monkeypatch.context() as patch:
        as_numbered(patch)
        plain = search(perceptron(), CLUSTER, REQUEST)
    assert plain.rank_order == tuple(range(8))
    assert found.estimate.step_time_s < plain.estimate.step_time_s * (1 - 1e-3)
    assert not any("rank table" in note for note in plain.notes)


def test_ranks_are_as_numbered_where_no_other_order_is_faster() -> None:
    build = GraphBuilder("rows", "float16")
    x = nets.dense(build, build.input("x", (4096, 256)), "only", 256, bias=False)
    found = search(nets.squared_error(build, x), CLUSTER, REQUEST)
    assert found.rank_order == tuple(range(8))
    assert len(MINDSPORE.meshes(CLUSTER)) == 2
    assert len(MINDSPORE.meshes(named_cluster("atlas-800t-a2", 16))) == 1
