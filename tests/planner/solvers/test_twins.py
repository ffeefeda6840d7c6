"""Groups of candidates that no neighbour tells apart lead to the same answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.problem import EdgeTable, NodeTable, Problem
from planner.solvers import Budget, solver_by_name
from planner.solvers.relaxation import CandidateClasses
from tests.planner.problem_faults import validate
from tests.planner.solvers.random_problems import problems


def doubled(problem: Problem, node_table: int, dearer: float, lighter: float) -> Problem:
    """The problem with every candidate of one node table twice: slower, with less memory."""
    nodes = list(problem.node_tables)
    table = nodes[node_table]
    nodes[node_table] = NodeTable(
        np.concatenate([table.time_s, table.time_s + dearer]),
        tuple(np.concatenate([v, v * lighter]) for v in table.memory_bytes),
    )
    edges = list(problem.edge_tables)
    done: set[tuple[int, int]] = set()
    for (u, v), number in zip(problem.edges, problem.edge_table_of, strict=True):
        for axis, node in enumerate((u, v)):
            if problem.node_table_of[node] == node_table and (number, axis) not in done:
                done.add((number, axis))
                old = edges[number]
                edges[number] = EdgeTable(
                    np.concatenate([old.time_s] * 2, axis=axis),
                    tuple(np.concatenate([m] * 2, axis=axis) for m in old.memory_bytes),
                )
    return replace(problem, node_tables=tuple(nodes), edge_tables=tuple(edges))


@given(problem=problems(), dearer=st.floats(0.0, 2.0), lighter=st.floats(0.0, 1.0), data=st.data())
def test_doubling_candidates_leaves_elimination_exact(
    problem: Problem, dearer: float, lighter: float, data: st.DataObject
) -> None:
    table = data.draw(st.integers(0, len(problem.node_tables) - 1))
    twice = doubled(problem, table, dearer, lighter)
    try:
        validate(twice)
    except ValueError:
        return  # an edge table shared by nodes of different tables
    groups = CandidateClasses(twice)
    for node, size in enumerate(groups.sizes):
        if twice.node_table_of[node] == table:
            assert size <= twice.sizes[node] // 2
    found = solver_by_name("dynamic_programming").solve(twice, Budget(), None)
    exact = solver_by_name("exhaustive").solve(twice, Budget(), None)
    assert (found.proof == "infeasible") == (exact.proof == "infeasible")
    if exact.proof == "optimal":
        assert found.bound_s <= exact.cost_s * (1 + 1e-9) + 1e-12
        if found.choice is not None and found.is_answer:
            assert found.cost_s >= exact.cost_s * (1 - 1e-9)
            assert twice.is_feasible(found.choice)
