"""XLA's own tests of auto-sharding (`xla_*` of the published cases).

XLA gives a dimension of a two-dimensional mesh one axis at most; the same is barred here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from costmodel.collectives import CollectiveModel
from ir.graph import OpGraph
from planner.problem import EdgeTable, NodeTable, Problem
from planner.solvers import Budget, Solution, solver_by_name
from tests.builders import GraphBuilder
from tests.cases.alpha_beta import machine, use_alpha_beta
from tests.cases.case_file import case, expected
from tests.cases.planning import axis_of_one_dimension, solved
from topology.errors import ClusterError
from topology.mesh import Mesh, MeshAxis

pytestmark = pytest.mark.fast

FORBIDDEN = 1e8


@pytest.fixture(autouse=True)
def _prices(monkeypatch: pytest.MonkeyPatch) -> None:
    use_alpha_beta(monkeypatch)


def two_products() -> OpGraph:
    build = GraphBuilder("two")
    a, b, d = build.input("a", (64, 64)), build.weight("b", (64, 128)), build.weight("d", (128, 64))
    c = build.op("MatMul", (a, b), (64, 128), name="first")
    return build.build(build.op("MatMul", (c, d), (64, 64), name="second"))


def test_a_contraction_is_reduced_over_the_cheap_axis() -> None:
    """xla_two_matmul: XLA sums everywhere what we leave scattered."""
    cluster = machine((2, 2), (1, 1), (0.01, 1))
    answer = solved(two_products(), cluster, axis_of_one_dimension, training=False)
    assert answer.operands("first") == ["[axis1, -]", "[-, axis0]"]
    assert answer.operands("second") == ["[axis1, axis0]", "[axis0, -]"]
    assert str(answer.operators["op_second"].outputs[0]) == "[axis1, -] +axis0"
    assert [(c.kind, c.axes) for c in answer.collectives] == [("reduce_scatter", ("axis0",))]


def test_the_cheap_axis_is_found_by_its_price() -> None:
    """xla_two_matmul with the prices exchanged"""
    cluster = machine((2, 2), (1, 1), (1, 0.01))
    answer = solved(two_products(), cluster, axis_of_one_dimension, training=False)
    assert answer.operands("second") == ["[axis0, axis1]", "[axis1, -]"]


def test_two_products_need_no_communication_where_rows_take_both_axes() -> None:
    """xla_two_matmul, nothing barred"""
    answer = solved(two_products(), machine((2, 2), (1, 1), (0.01, 1)), training=False)
    assert answer.collectives == ()
    assert len(answer.operators["op_first"].inputs[0].dims[0]) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("barred", [True, False])
def test_a_product_over_two_dimensions_splits_what_it_keeps(barred: bool) -> None:
    """xla_dot_two_contracting"""
    build = GraphBuilder("contraction")
    x, y = build.input("x", (4, 256, 64)), build.weight("y", (4, 256, 32))
    z = build.op("Einsum", (x, y), (64, 32), name="z", equation="bkm,bkn->mn")
    bar = axis_of_one_dimension if barred else None
    answer = solved(build.build(z), machine((2, 2), (1, 1), (0.01, 1)), bar, training=False)
    result = answer.operators["op_z"].outputs[0]
    assert result is not None
    assert answer.collectives == ()
    assert result.partial == ()
    assert sum(map(len, result.dims)) == 2
    assert not barred or all(result.dims)


SHAPES = [tuple(shape) for shape in case("xla_matmul_mesh_shapes")["mesh"]["shapes"]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_has_a_tile_for_each_device(shape: tuple[int, ...]) -> None:
    """xla_matmul_mesh_shapes"""
    build = GraphBuilder("product")
    x, w = build.input("x", (32, 64)), build.weight("w", (64, 128))
    out = build.op("MatMul", (x, w), (32, 128), name="product")
    cluster = machine(shape)
    answer = solved(build.build(out), cluster, axis_of_one_dimension, training=False)
    result = answer.operators["op_product"].outputs[0]
    assert result is not None
    sizes = {tier.name: tier.size for tier in cluster.tiers}
    tiles = math.prod(sizes[axis] for dim in result.dims for axis in dim)
    wanted = expected("xla_matmul_mesh_shapes")["num_tiles_of_root"]
    assert tiles == wanted[str(list(shape)).replace(" ", "")]
    assert sum(bool(dim) for dim in result.dims) == len(sizes)
    assert answer.collectives == ()


@pytest.mark.parametrize("shape", [(), (0, 4), (-1, 4)])
def test_a_mesh_without_ranks_is_refused(shape: tuple[int, ...]) -> None:
    """xla_invalid_options"""
    with pytest.raises(ClusterError):
        Mesh(tuple(MeshAxis(f"axis{i}", n, i) for i, n in enumerate(shape)))


@pytest.mark.parametrize("axes", [((1, 0), (2, 1), (4, 2)), ((2, 0), (2, 1)), ((4, 0), (8, 1))])
def test_a_mesh_that_is_not_of_the_machine_is_refused(axes: Sequence[tuple[int, int]]) -> None:
    """xla_invalid_options: an axis without a price, and too few or too many devices."""
    mesh = Mesh(tuple(MeshAxis(f"axis{i}", n, tier) for i, (n, tier) in enumerate(axes)))
    with pytest.raises(ClusterError):
        CollectiveModel(machine((2, 4)), mesh)


class FiveNodes:
    """XLA's solver instance, whose parts a test may change."""

    def __init__(self) -> None:
        raw: dict[str, Any] = dict(case("xla_solver_5node")["instance"])
        self.raw = raw
        self.costs = [np.add(c, d, dtype=float) for c, d in zip(raw["c"], raw["d"], strict=True)]
        self.edges = [tuple(edge) for edge in raw["edges"]]
        shapes = [(len(self.costs[u]), len(self.costs[v])) for u, v in self.edges]
        self.prices = [
            np.array(r, dtype=float).reshape(s) for r, s in zip(raw["r"], shapes, strict=True)
        ]
        follow = np.where(np.eye(4), 0.0, FORBIDDEN)
        alias = np.reshape(raw["alias_conflict"][0], (3, 3)) * FORBIDDEN
        self.rules = [((2, 3), follow), (tuple(raw["alias"][0]), alias)]

    def problem(self) -> Problem:
        live = self.raw["live"]
        intervals = []
        for node in range(5):
            points = [t for t, alive in enumerate(live) if node in alive]
            runs = [(t, t + 1) for t in points]
            intervals.append(tuple(runs))
        memory = [np.array(m, dtype=float) for m in self.raw["m"]]
        edges = [
            *zip(self.edges, self.prices, strict=True),
            *((pair, np.asarray(rule, dtype=float)) for pair, rule in self.rules),
        ]
        return Problem(
            tuple(NodeTable(self.costs[i], (memory[i],) * len(intervals[i])) for i in range(5)),
            tuple(EdgeTable(price) for _, price in edges),
            tuple(range(5)),
            tuple(intervals),
            tuple((int(u), int(v)) for (u, v), _ in edges),
            tuple(range(len(edges))),
            ((),) * len(edges),
            len(live),
            float(self.raw["memory_budget"]),
        )

    def solved(self, solver: str) -> Solution:
        return solver_by_name(solver).solve(self.problem(), Budget())


WANTED = expected("xla_solver_5node")
SOLVERS = ["exhaustive", "ilp", "portfolio"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_xlas_instance_has_its_optimum(solver: str) -> None:
    """xla_solver_5node"""
    found = FiveNodes().solved(solver)
    assert found.choice == tuple(WANTED["optimal"]["s"])
    assert found.cost_s == WANTED["optimal"]["cost"]
    assert found.peak_bytes == WANTED["optimal"]["peak"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_xlas_instance_answers_to_a_change(solver: str) -> None:
    """xla_solver_5node: candidates and pairs forbidden, an edge added."""
    node, pair, edge = FiveNodes(), FiveNodes(), FiveNodes()
    node.costs[0][:3] = FORBIDDEN
    pair.prices[0][0, 0] = FORBIDDEN
    edge.edges.append((1, 3))
    edge.prices.append(edge.prices[1])
    assert node.solved(solver).cost_s == WANTED["node0_first3_infinite"]["cost"]
    assert pair.solved(solver).choice == tuple(WANTED["edge0_entry0_infinite"]["s"])
    assert pair.solved(solver).cost_s == WANTED["edge0_entry0_infinite"]["cost"]
    assert edge.solved(solver).cost_s == WANTED["extra_edge_1_3_same_costs_as_edge1"]["cost"]


def test_any_answer_to_xlas_instance_is_judged() -> None:
    """xla_solver_5node: XLA's cost of two answers, one of them beyond the memory."""
    instance = FiveNodes()
    problem = instance.problem()
    wanted = WANTED["evaluate_3_1_2_2_1"]
    assert problem.cost_s((3, 1, 2, 2, 1)) % FORBIDDEN == wanted["total"]
    assert problem.is_feasible((3, 1, 2, 2, 1))
    assert problem.cost_s((2, 1, 2, 2, 1)) % FORBIDDEN == WANTED["evaluate_2_1_2_2_1"]["total"]
    assert not problem.is_feasible((2, 1, 2, 2, 1))
