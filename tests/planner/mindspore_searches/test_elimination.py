"""Eliminations as MindSpore does them: exact where they are, and wrong where they are, by hand."""

from __future__ import annotations

import dataclasses
import math
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.mindspore_strategies import strategy_of
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.mindspore_searches.elimination import MindsporeElimination
from planner.problem import EdgeTable, NodeTable, Problem
from planner.solvers import Budget, Solution
from planner.solvers.exhaustive import Exhaustive
from tests.planner.solvers.random_problems import deep_problem, problems
from tests.planner.test_mindspore_choices import DYNAMIC_PROGRAMMING, ended, setting_of

SAME, FAR = [[0.0, 10.0], [10.0, 0.0]], [[0.0, 20.0], [20.0, 0.0]]
FREE = [[0.0], [0.0]]
UNEQUAL = [[9.0, 9.0], [0.0, 0.0]]


def solve(problem: Problem) -> Solution:
    return MindsporeElimination().solve(problem, Budget())


Edges: TypeAlias = dict[tuple[int, int], list[list[float]]]


def problem_of(nodes: list[list[float]], edges: Edges) -> Problem:
    """A problem without memory."""
    return Problem(
        node_tables=tuple(NodeTable(np.array(costs)) for costs in nodes),
        edge_tables=tuple(EdgeTable(np.array(table)) for table in edges.values()),
        node_table_of=tuple(range(len(nodes))),
        node_intervals=((),) * len(nodes),
        edges=tuple(edges),
        edge_table_of=tuple(range(len(edges))),
        edge_intervals=((),) * len(edges),
        time_points=0,
        memory_limit_bytes=math.inf,
    )


@pytest.mark.fast
@settings(max_examples=300, deadline=None)
@given(problems())
def test_eliminations_without_folding_find_the_optimum(problem: Problem) -> None:
    found, optimum = solve(problem), Exhaustive().solve(problem, Budget())
    assert found.cost_s >= optimum.cost_s * (1 - 1e-12)
    if found.log[0].endswith(" 0 of them not exact"):
        assert found.proof == "optimal"
        assert found.cost_s == pytest.approx(optimum.cost_s, rel=1e-12)


@pytest.mark.fast
def test_a_chain_with_parallel_edges_and_both_kinds_of_ends_is_exact() -> None:
    """Nodes 0 and 1 come before 2, then 3 twice over, and 4 is last."""
    nodes = [[3.0, 0.0], [0.0, 4.0], [1.0, 1.0], [0.0, 2.0], [5.0, 0.0]]
    extra = [[1.0, 0.0], [0.0, 0.0]]
    edges = {(0, 2): SAME, (1, 2): SAME, (2, 3): SAME, (3, 2): extra, (3, 4): SAME}
    found = solve(problem_of(nodes, edges))
    assert found.proof == "optimal"
    # All at candidate 0: 3 + 0 + 1 + 0 + 5 and one for the second edge; all at 1: 0 + 4 + 1 + 2.
    assert found.choice == (1, 1, 1, 1, 1)
    assert found.cost_s == 7.0


def test_the_far_corner_of_a_triangle_keeps_its_own_choice() -> None:
    """Node 0 is folded into 1 as if 2 took candidate 1; 2 takes 0, which is cheaper by itself.

    For candidate 1 of node 1: 0 from node 0 at 1, which wants node 2 at 1 for 5 more. Together with
    its own cost that is 5, against 7 and the 9 of the edge for candidate 0. Node 2 by itself is 0.
    Node 3 costs nothing; without it node 1 would be eliminated from its chain.
    """
    nodes = [[0.0, 0.0], [7.0, 0.0], [0.0, 5.0], [0.0]]
    edges = {(0, 1): SAME, (0, 2): SAME, (1, 2): UNEQUAL, (1, 3): FREE, (2, 3): FREE}
    problem = problem_of(nodes, edges)
    found = solve(problem)
    assert found.choice == (1, 1, 0, 0)
    assert found.cost_s == 10.0
    assert found.bound_s <= Exhaustive().solve(problem, Budget()).cost_s == 5.0
    assert found.proof == "bounded"


def test_what_was_eliminated_before_such_a_corner_follows_what_that_was_thought_to_be() -> None:
    """As before with a node between 0 and the corner: it is chosen for a corner at 1."""
    nodes = [[0.0, 0.0], [0.0, 0.0], [7.0, 0.0], [0.0, 5.0], [0.0]]
    edges = {(0, 1): SAME, (0, 2): SAME, (1, 3): FAR, (2, 3): UNEQUAL, (2, 4): FREE, (3, 4): FREE}
    found = solve(problem_of(nodes, edges))
    assert found.choice == (1, 1, 1, 0, 0)
    assert found.cost_s == 20.0


def test_all_but_the_first_successor_of_a_star_keep_their_own_choice() -> None:
    """Node 0 takes 1: nothing for node 1, and 1 for node 2 at 1, which is better than 3.

    Nodes 3 and 4 cost nothing; without them node 2 would be eliminated as the last of its chain.
    """
    nodes = [[0.0, 0.0], [0.0], [0.0, 1.0], [0.0], [0.0]]
    edges = {(0, 1): [[3.0], [0.0]], (0, 2): SAME, (1, 3): [[0.0]], (1, 4): [[0.0]]}
    problem = problem_of(nodes, edges | {(2, 3): FREE, (2, 4): FREE})
    found = solve(problem)
    assert found.choice == (1, 0, 0, 0, 0)
    assert found.cost_s == 10.0
    assert Exhaustive().solve(problem, Budget()).cost_s == 1.0


def test_memory_is_looked_at_when_one_node_is_left() -> None:
    table = NodeTable(np.array([0.0, 1.0, 2.0]), (np.array([9.0, 5.0, 1.0]),))
    problem = dataclasses.replace(
        problem_of([[0.0]], {}), node_tables=(table,), node_intervals=(((0, 1),),), time_points=1
    )
    for limit, choice in ((9.0, (0,)), (6.0, (1,)), (1.0, (2,))):
        found = solve(dataclasses.replace(problem, memory_limit_bytes=limit))
        assert found.choice == choice
        assert found.is_answer
    assert solve(dataclasses.replace(problem, memory_limit_bytes=0.5)).proof == "none"


def test_the_perceptron_is_split_as_by_the_real_package() -> None:
    lowered = lower(
        analyse(ended("mlp", 3), training=True), setting_of(ended("mlp", 3), "mindspore")
    )
    found = solve(lowered.problem)
    assert found.choice is not None
    assert strategy_of(lowered, found.choice) == DYNAMIC_PROGRAMMING


def test_a_deadline_ends_the_eliminations() -> None:
    found = MindsporeElimination().solve(deep_problem(layers=4), Budget(deadline_s=0.0))
    assert found.truncated
    assert found.choice is not None
