"""Tables of a mesh serve every lowering: what an older one left in them changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from ir.graph import OpGraph
from planner.candidates.layout_tables import LayoutTable
from planner.candidates.mesh_tables import mesh_tables
from planner.lowering.lowered import Lowered
from planner.problem import EdgeTable, FloatArray, NodeTable
from planner.request import SearchRequest
from tests.builders import attention_block, mlp
from tests.planner.lowering_of import lowered_on
from topology.catalogue import named_cluster
from topology.mesh import Mesh, MeshAxis

MESH = Mesh((MeshAxis("card0", 2, 0), MeshAxis("card1", 4, 0)))
TARGETS = ("mindspore", "generic")


def lowered(graph: OpGraph, target: str, cluster: str = "dgx-h100") -> Lowered:
    request = SearchRequest(target=target)
    return lowered_on(graph, named_cluster(cluster, 8), MESH, request, zero="auto")


def numbers(table: NodeTable | EdgeTable) -> list[FloatArray]:
    loads = [] if table.loads is None else [table.loads]
    return [table.time_s, *table.memory_bytes, *loads]


def assert_equal(one: Lowered, other: Lowered) -> None:
    ours, theirs = one.problem, other.problem
    assert ours.node_table_of == theirs.node_table_of
    assert ours.edges == theirs.edges
    assert ours.edge_table_of == theirs.edge_table_of
    nodes = zip(ours.node_tables, theirs.node_tables, strict=True)
    edges = zip(ours.edge_tables, theirs.edge_tables, strict=True)
    found = [(numbers(a), numbers(b)) for a, b in nodes]
    found += [(numbers(a), numbers(b)) for a, b in edges]
    for mine, yours in found:
        assert all(np.array_equal(a, b) for a, b in zip(mine, yours, strict=True))


@pytest.mark.fast
@pytest.mark.parametrize("target", TARGETS)
def test_a_lowering_after_others_is_that_of_a_fresh_process(target: str) -> None:
    graph = attention_block(8, 64, 4)
    mesh_tables.cache_clear()
    fresh = lowered(graph, target)
    mesh_tables.cache_clear()
    lowered(mlp(2), target)
    lowered(attention_block(16, 64, 4), target)
    lowered(graph, target, "dgx-a100")
    assert_equal(lowered(graph, target), fresh)


@pytest.mark.parametrize("target", TARGETS)
def test_links_change_no_candidate(target: str) -> None:
    graph = attention_block(8, 64, 4)
    one, other = (lowered(graph, target, cluster) for cluster in ("dgx-h100", "dgx-a100"))
    assert one.problem.sizes == other.problem.sizes
    ends = zip(one.edges, other.edges, strict=True)
    assert all(a.target_layouts.states == b.target_layouts.states for a, b in ends)


def test_rows_of_a_table_say_what_a_table_of_these_states_says() -> None:
    for node in lowered(attention_block(8, 64, 4), "mindspore").nodes:
        table = node.layouts
        if table is None or len(table.states) < 2:
            continue
        chosen = np.array([len(table.states) - 1, 0, 1], dtype=np.intp)
        part, alone = (
            table.rows(chosen),
            LayoutTable(tuple(table.states[i] for i in chosen), np.arange(3)),
        )
        assert part.states == alone.states
        assert np.array_equal(part.masks, alone.masks)
        assert np.array_equal(part.pieces(MESH.sizes), alone.pieces(MESH.sizes))
        assert table.rows(chosen) is part
        assert table.rows(chosen[::-1]) is not part
