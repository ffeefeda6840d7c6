"""The declared space: what candidates exist, and what is left out is counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import planner.candidates.offers
import planner.candidates.operators
from costmodel.collectives import CollectiveModel
from costmodel.operators import OperatorModel
from ir.dialects import FREE, MINDSPORE
from ir.ops import OpView, lookup
from planner.candidates.mesh_tables import mesh_tables
from planner.candidates.offers import GRADIENT_PARTIAL, REPLICATED, Offers
from planner.candidates.operator_cost import FloatArray, Pricing, priced_together
from planner.candidates.operators import OpPricer
from tests.builders import GraphBuilder, mlp
from tests.planner.lowering_of import all_lowered
from topology.catalogue import named_cluster
from topology.mesh import Mesh, MeshAxis, prime_mesh, tier_mesh

pytestmark = pytest.mark.fast


def matmul_view(rows: int = 1024, inner: int = 512, columns: int = 2048) -> OpView:
    build = GraphBuilder("product")
    x = build.input("x", (rows, inner))
    build.op("MatMul", (x, build.weight("w", (inner, columns))), (rows, columns), "y")
    graph = build.build("y")
    return OpView(graph.ops[0], graph)


def free_assignments(view: OpView, mesh: Mesh, *, gradient: bool) -> list[tuple[int, ...]]:
    entry = lookup(view.op.kind)
    found, left_out = Offers(FREE, mesh).assignments(entry.rule(view), entry, gradient=gradient)
    assert left_out == 0
    return found


def test_a_product_on_two_axes_has_every_assignment_of_its_factors() -> None:
    found = free_assignments(matmul_view(), tier_mesh(named_cluster("dgx-a100", 16)), gradient=True)
    plain = [a for a in found if GRADIENT_PARTIAL not in a]
    assert len(plain) == len(set(plain)) == 4**2
    assert len(found) == 5**2


def test_a_product_on_three_axes_has_every_assignment_of_its_factors() -> None:
    mesh = Mesh((MeshAxis("server", 2, 0), MeshAxis("card0", 2, 1), MeshAxis("card1", 4, 1)))
    found = free_assignments(matmul_view(), mesh, gradient=False)
    assert len(found) == len(set(found)) == 4**3


def test_cut_counts_follow_the_order_of_the_device_matrix() -> None:
    view, entry = matmul_view(), lookup("MatMul")
    mesh = prime_mesh(named_cluster("atlas-800t-a2", 16), 6)
    rule = entry.rule(view)
    found, _ = Offers(MINDSPORE, mesh).assignments(rule, entry, gradient=True)
    order = {factor: i for i, factor in enumerate(rule.splittable)}
    order[REPLICATED] = len(order)
    places = [[order[f] for f in a] for a in found]
    assert all(p == sorted(p) for p in places)
    assert len(found) == 35  # four axes of size two into three factors and repetition, in order


@pytest.fixture
def own_tables() -> Iterator[None]:
    """What a process keeps for a mesh is made for this test, and for no other."""
    mesh_tables.cache_clear()
    yield
    mesh_tables.cache_clear()


@pytest.mark.usefixtures("own_tables")
def test_no_operator_has_more_candidates_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner.candidates.offers, "MAX_CANDIDATES", 10)
    view, entry = matmul_view(), lookup("MatMul")
    mesh = tier_mesh(named_cluster("dgx-a100", 16))
    found, left_out = Offers(FREE, mesh).assignments(entry.rule(view), entry, gradient=True)
    assert (len(found), left_out) == (10, 15)
    lowered = all_lowered(mlp(2), 16, "generic")[0]
    assert lowered.left_out > 0
    operators = [n for n in lowered.nodes if n.candidates is not None]
    assert max(len(n.candidates.assignments) for n in operators if n.candidates) == 10


def test_a_split_must_divide_within_the_allowed_waste() -> None:
    mesh = Mesh((MeshAxis("card", 8, 0),))
    split = [a for a in free_assignments(matmul_view(rows=25), mesh, gradient=False) if a == (0,)]
    assert split == [(0,)]  # 25 rows over 8: shards of 4, padded to 32, 28 % more
    assert (0,) not in free_assignments(matmul_view(rows=17), mesh, gradient=False)


@pytest.mark.parametrize(
    ("devices", "allowed"), [(0, False), (1, True), (2, True), (3, False), (12, False), (24, True)]
)
def test_mindspore_runs_on_one_two_four_or_whole_servers(devices: int, allowed: bool) -> None:
    assert MINDSPORE.runs_on(devices) is allowed


def test_operators_priced_together_have_the_times_of_each_alone() -> None:
    cluster = named_cluster("dgx-a100", 16)
    mesh = tier_mesh(cluster)

    def pricer() -> OpPricer:
        model = CollectiveModel(cluster, mesh)
        return OpPricer(mesh, FREE, OperatorModel(cluster.chip), model)

    wanted = [(matmul_view(columns=n), (True, True)) for n in (512, 2048, 7168)]
    for found, (view, gradient) in zip(pricer().all_candidates(wanted), wanted, strict=True):
        alone = pricer().candidates(view, gradient)
        assert (found.forward_s == alone.forward_s).all()
        assert (found.backward_s == alone.backward_s).all()
        assert found.whole_forward_s == alone.whole_forward_s
        assert list(found.inner) == list(alone.inner)
        assert found.inner_s.tolist() == [sum(c.time_s for c in own) for own in found.inner]


def test_times_are_found_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(model: OperatorModel, works: list[Pricing]) -> list[tuple[FloatArray, FloatArray]]:
        calls.append(len(works))
        return priced_together(model, works)

    monkeypatch.setattr(planner.candidates.operators, "priced_together", counted)
    cluster = named_cluster("dgx-a100", 16)
    mesh = tier_mesh(cluster)
    pricer = OpPricer(mesh, FREE, OperatorModel(cluster.chip), CollectiveModel(cluster, mesh))
    views = [(matmul_view(columns=n), (True, True)) for n in (512, 2048)]
    found = pricer.all_candidates(views)
    assert calls == []
    assert all((each.time_s > 0).all() for each in found)
    assert calls == [2]
