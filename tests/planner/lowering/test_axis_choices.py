"""The hint of what candidates do with the mesh axes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ir.layout import Layout
from planner.candidates.layout_tables import LayoutPair, layout_table_of
from planner.candidates.offers import REPLICATED
from planner.lowering.lowered import NodeKind
from planner.reduction.restriction import restricted
from planner.request import SearchRequest
from tests.builders import attention_block
from tests.planner.lowering_of import lowered_on
from tests.planner.problem_faults import validate
from topology.catalogue import named_cluster
from topology.mesh import prime_mesh, tier_mesh

pytestmark = pytest.mark.fast


def test_a_layout_says_what_each_axis_is_to_it_and_to_its_gradient() -> None:
    whole = Layout(((), ()))
    states = [
        LayoutPair(whole, whole),
        LayoutPair(Layout(((0,), ())), Layout(((0,), ()))),
        LayoutPair(Layout(((), (0,))), Layout(((), (0,)))),
        LayoutPair(Layout(((0,), ())), Layout(((0,), ()), (1,))),
        LayoutPair(Layout(((), ()), (1,)), whole),
    ]
    rows = layout_table_of([*states, states[1]]).axis_choices(2).tolist()
    assert rows[0] == [0, 0]
    assert rows[1] == rows[5]
    assert [row[0] for row in rows[:5]].count(0) == 2
    assert len({tuple(row) for row in rows[:5]}) == 5
    assert rows[3][0] == rows[1][0] != rows[2][0]
    assert rows[3][1] != 0 != rows[4][1]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("target", ["mindspore", "generic"])
def test_every_candidate_of_a_lowered_problem_has_its_row(target: str, *, recompute: bool) -> None:
    cluster = named_cluster("atlas-800t-a2", 16)
    mesh = prime_mesh(cluster, 6) if target == "mindspore" else tier_mesh(cluster)
    request = SearchRequest(target=target)
    lowered = lowered_on(attention_block(16), cluster, mesh, request, recompute=recompute)
    problem = lowered.problem
    validate(problem)
    for node, table in zip(lowered.nodes, problem.node_table_of, strict=True):
        axes = problem.node_tables[table].axes
        assert axes is not None
        assert axes.shape == (len(problem.node_tables[table].time_s), len(mesh.axes))
        if node.kind is NodeKind.OPERATOR and node.candidates is not None:
            for candidate, row in enumerate(axes):
                assignment = node.assignment(candidate)
                assert [a == REPLICATED for a in assignment] == [label == 0 for label in row]


def test_a_restricted_problem_keeps_the_rows_of_what_is_left() -> None:
    cluster = named_cluster("atlas-800t-a2", 16)
    request = SearchRequest(target="generic")
    problem = lowered_on(attention_block(16), cluster, tier_mesh(cluster), request).problem
    allowed = [np.arange(size)[::-2] for size in problem.sizes]
    less = restricted(problem, allowed)
    validate(less)
    for node, keep in enumerate(allowed):
        before = problem.node_tables[problem.node_table_of[node]].axes
        after = less.node_tables[less.node_table_of[node]].axes
        assert before is not None
        assert after is not None
        assert (before[keep] == after).all()


def test_hints_that_do_not_fit_are_violations() -> None:
    cluster = named_cluster("atlas-800t-a2", 4)
    problem = lowered_on(
        attention_block(8), cluster, tier_mesh(cluster), SearchRequest(target="generic")
    ).problem
    table = replace(problem.node_tables[0], axes=np.zeros((0, 1), dtype=np.intp))
    broken = replace(problem, node_tables=(table, *problem.node_tables[1:]), pinned=(0, 999))
    with pytest.raises(ValueError, match=r"(?s)pinned has \(0, 999\).*table 0: axes has shape \(0"):
        validate(broken)
