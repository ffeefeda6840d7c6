from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.problem import EdgeTable, NodeTable, Problem
from tests.planner.problem_faults import validate
from tests.planner.solvers.random_problems import permuted, problems

PAIR = Problem(
    node_tables=(
        NodeTable(np.array([1.0, 2.0]), (np.array([30.0, 10.0]),)),
        NodeTable(
            np.array([5.0, 0.5, 4.0]), (np.array([1.0, 2.0, 3.0]), np.array([7.0, 0.0, 0.0]))
        ),
    ),
    edge_tables=(
        EdgeTable(np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), (np.full((2, 3), 100.0),)),
    ),
    node_table_of=(0, 1),
    node_intervals=(((0, 3),), ((1, 2), (2, 4))),
    edges=((0, 1), (0, 1)),
    edge_table_of=(0, 0),
    edge_intervals=(((1, 2),), ((3, 4),)),
    time_points=4,
    memory_limit_bytes=131.0,
)


def test_the_cost_adds_nodes_and_parallel_edges() -> None:
    assert PAIR.cost_s((0, 1)) == 1.0 + 0.5 + 2 * 1.0
    assert PAIR.cost_s((1, 2)) == 2.0 + 4.0 + 2 * 5.0


def test_memory_is_held_from_the_start_of_an_interval_to_before_its_end() -> None:
    assert PAIR.memory_profile((0, 0)).tolist() == [30.0, 131.0, 37.0, 107.0]
    assert PAIR.peak_bytes((0, 0)) == 131.0
    assert PAIR.is_feasible((0, 0))
    assert not PAIR.is_feasible((0, 1))


def test_a_choice_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        PAIR.cost_s((0,))


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_nodes_does_not_change_the_cost_of_a_choice(
    problem: Problem, random: random.Random
) -> None:
    order = list(range(len(problem.node_table_of)))
    random.shuffle(order)
    choice = [random.randrange(size) for size in problem.sizes]
    moved = [choice[old] for old in order]
    other = permuted(problem, order)
    assert other.cost_s(moved) == problem.cost_s(choice)
    assert other.peak_bytes(moved) == problem.peak_bytes(choice)


@given(problems(limited=True))
def test_random_problems_are_well_formed(problem: Problem) -> None:
    validate(problem)


def test_every_violation_is_listed() -> None:
    broken = dataclasses.replace(
        PAIR,
        node_tables=(
            NodeTable(np.array([1.0, math.inf]), (np.array([30.0]),)),
            PAIR.node_tables[1],
        ),
        node_table_of=(0, 2),
        node_intervals=(((0, 9),), ()),
        edges=((0, 0), (0, 7)),
        edge_intervals=((), ((3, 4),)),
        memory_limit_bytes=math.nan,
    )
    with pytest.raises(ValueError, match="malformed") as raised:
        validate(broken)
    message = str(raised.value)
    for expected in (
        "memory_limit_bytes is nan",
        "node table 0: time_s has entries that are not finite",
        "node table 0: memory_bytes[0] has shape (1,)",
        "node 0: interval [0, 9)",
        "node 1: there is no node table 2",
        "edge 0 (0, 0): 0 intervals for 1",
        "edge 0 (0, 0): the ends must be two different nodes",
        "edge 1 (0, 7): the ends must be two different nodes",
    ):
        assert expected in message


def test_a_matrix_that_does_not_match_its_ends_is_named() -> None:
    broken = dataclasses.replace(PAIR, edges=((1, 0), (0, 1)))
    with pytest.raises(ValueError, match=r"edge 0 \(1, 0\): its matrix is \(2, 3\)"):
        validate(broken)
