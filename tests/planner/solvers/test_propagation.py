"""Sharding propagation: where it starts, what it follows, and what memory makes of it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem import EdgeTable, NodeTable, Problem
from planner.solvers import Budget
from planner.solvers.propagation import Propagation
from tests.planner.solvers.random_problems import deep_problem, problems

SAME = EdgeTable(5.0 * (1.0 - np.eye(3)))
"""Three layouts; staying in one sends nothing."""


def problem_of(
    vectors: list[list[float]],
    edges: list[tuple[int, int]],
    tables: list[EdgeTable],
    pinned: tuple[int, ...] = (),
) -> Problem:
    nodes = len(vectors)
    return Problem(
        tuple(NodeTable(np.array(v), (np.arange(len(v), 0.0, -1.0),)) for v in vectors),
        tuple(tables), tuple(range(nodes)), (((0, 1),),) * nodes, tuple(edges),
        tuple(range(len(edges))), ((),) * len(edges), 1, math.inf, pinned,
    )  # fmt: skip


def test_the_rest_follows_the_pin_however_slow() -> None:
    cheap_elsewhere = [0.0, 1.0, 2.0]
    column = EdgeTable(SAME.time_s[2:3])
    found = Propagation().solve(
        problem_of(
            [[9.0], cheap_elsewhere, cheap_elsewhere, cheap_elsewhere],
            [(0, 1), (1, 2), (3, 2)],
            [column, SAME, SAME],
            pinned=(0,),
        ),
        Budget(),
    )
    assert found.choice == (0, 2, 2, 2)


def test_of_equal_communication_the_fastest_is_taken() -> None:
    free = EdgeTable(np.zeros((1, 3)))
    found = Propagation().solve(problem_of([[1.0], [3.0, 1.0, 2.0]], [(0, 1)], [free]), Budget())
    assert found.choice == (0, 1)


def test_all_decided_neighbours_count_parallel_edges_too() -> None:
    first = EdgeTable(np.array([[0.0, 3.0, 9.0]]))
    second = EdgeTable(np.array([[4.0, 0.0, 9.0]]))
    problem = problem_of([[0.0], [0.0], [0.0] * 3], [(0, 2), (1, 2)], [first, second])
    assert Propagation().solve(problem, Budget()).choice == (0, 0, 1)
    both = problem_of([[0.0], [0.0] * 3], [(0, 1), (0, 1)], [first, second])
    assert Propagation().solve(both, Budget()).choice == (0, 1)


def test_pins_come_before_nodes_without_a_choice() -> None:
    """A fixed input at one end, a pin with two candidates left at the other."""
    ends = EdgeTable(0.5 * SAME.time_s[0:1])
    pin = EdgeTable(SAME.time_s[:, 1:])
    vectors = [[0.0], [0.0] * 3, [0.0] * 3, [2.0, 1.0]]
    chain = [(0, 1), (1, 2), (2, 3)]
    problem = problem_of(vectors, chain, [ends, SAME, pin], pinned=(3,))
    # The pin takes its faster candidate, which wants the last layout.
    assert Propagation().solve(problem, Budget()).choice == (0, 2, 2, 1)
    unpinned = dataclasses.replace(problem, pinned=())
    assert Propagation().solve(unpinned, Budget()).choice == (0, 0, 0, 1)


def test_what_is_given_counts_though_the_pins_are_elsewhere() -> None:
    """The pin leaves node 1 every layout; the input, behind it, wants the second."""
    free, wanted = EdgeTable(np.zeros((1, 3))), EdgeTable(np.array([[1.0], [0.0], [1.0]]))
    problem = problem_of([[1.0], [0.0] * 3, [0.0]], [(0, 1), (1, 2)], [free, wanted], pinned=(0,))
    assert Propagation().solve(problem, Budget()).choice == (0, 1, 0)


def test_without_any_start_the_heaviest_node_is_first() -> None:
    problem = problem_of([[0.0, 1.0, 2.0], [90.0, 80.0, 70.0]], [(0, 1)], [SAME])
    assert Propagation().solve(problem, Budget()).choice == (2, 2)


def test_parts_that_no_pin_reaches_are_decided_too() -> None:
    problem = problem_of([[1.0], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]], [(1, 2)], [SAME], pinned=(0,))
    found = Propagation().solve(problem, Budget())
    assert found.choice == (0, 2, 2)
    assert "1 more in parts that these do not reach" in found.log[0]


@given(problem=problems(limited=True), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_a_pinned_problem_has_true_bounds_and_nodes_without_a_choice_stay(
    problem: Problem, seed: int
) -> None:
    pin = seed % len(problem.sizes)
    pinned = dataclasses.replace(problem, pinned=(pin,))
    found = Propagation().solve(pinned, Budget())
    assert found.choice is not None
    assert found.bound_s <= found.cost_s or found.proof == "infeasible"
    assert math.isfinite(found.bound_s) or found.proof == "infeasible"
    assert found == Propagation().solve(pinned, Budget(threads=3))


def test_a_price_on_memory_brings_it_within_the_limit() -> None:
    problem = deep_problem(layers=20)
    free = Propagation().solve(problem, Budget())
    tight = dataclasses.replace(problem, memory_limit_bytes=0.6 * free.peak_bytes)
    found = Propagation().solve(tight, Budget())
    assert found.proof == "bounded"
    assert found.peak_bytes > 0.95 * tight.memory_limit_bytes


def test_no_saving_of_memory_is_worth_a_forbidden_pair() -> None:
    """The leaner candidate of node 1 does not go with node 0, and the limit asks for it."""
    never = EdgeTable(np.array([[0.0, 1e3]]))
    problem = problem_of([[1.0], [1.0, 1.0]], [(0, 1)], [never])
    tight = dataclasses.replace(problem, memory_limit_bytes=2.0)
    found = Propagation().solve(tight, Budget())
    assert found.choice == (0, 0)
    assert found.proof == "none"


@pytest.mark.parametrize("limit", [0.5, 0.0])
def test_what_cannot_fit_is_said(limit: float) -> None:
    problem = problem_of([[1.0], [1.0, 1.0]], [], [])
    found = Propagation().solve(dataclasses.replace(problem, memory_limit_bytes=limit), Budget())
    assert found.proof == "infeasible"
