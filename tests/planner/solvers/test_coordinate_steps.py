"""Steps of recursive bisection: what is near, and that no step makes an answer worse."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem import EdgeTable, NodeTable, Problem
from planner.solvers import Budget
from planner.solvers import recursive_bisection as steps
from planner.solvers.contract import Meter
from planner.solvers.exhaustive import Exhaustive
from planner.solvers.ledger import Ledger, priced_cost
from planner.solvers.recursive_bisection import CoordinateSteps, Moves
from tests.planner.solvers.random_problems import deep_problem, problems

ROWS = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0], [2, 2, 0], [1, 1, 2], [-1, 0, 0]]


def _moves() -> Moves:
    return Moves(NodeTable(np.zeros(len(ROWS)), axes=np.array(ROWS, dtype=np.intp)))


@pytest.mark.fast
def test_depth_is_the_innermost_axis_in_use() -> None:
    assert _moves().depth.tolist() == [0, 1, 2, 2, 2, 2, 3, 1]
    assert _moves().within(1).tolist() == [0, 1, 7]


def test_near_is_one_axis_more_less_or_elsewhere() -> None:
    # From [1, 0, 0]: nothing, itself, the same use of another axis, one more, another use of it.
    assert _moves().near(1).tolist() == [0, 1, 2, 3, 4, 7]
    assert _moves().near(5).tolist() == [4, 5]


def test_a_node_without_shallow_candidates_keeps_its_shallowest() -> None:
    deep = Moves(NodeTable(np.zeros(3), axes=np.array([[1, 1], [1, 2], [2, 2]], dtype=np.intp)))
    assert deep.within(0).tolist() == [0, 1, 2]


def test_without_a_hint_all_candidates_are_near() -> None:
    plain = Moves(NodeTable(np.zeros(4)))
    assert plain.near(2).tolist() == plain.within(0).tolist() == [0, 1, 2, 3]


def test_computing_again_is_no_other_use_of_the_axes() -> None:
    twice = Moves(NodeTable(np.zeros(6), axes=np.array([[0], [1], [2]] * 2, dtype=np.intp)))
    suited = twice.is_suited(np.array([4, 1, 0, 3]))
    assert suited.all()


def with_axes(problem: Problem, seed: int, axes: int = 3) -> Problem:
    """The problem with a drawn hint on every table."""
    rng = np.random.default_rng(seed)
    tables = tuple(
        dataclasses.replace(t, axes=rng.integers(0, 3, size=(len(t.time_s), axes)).astype(np.intp))
        for t in problem.node_tables
    )
    return dataclasses.replace(problem, node_tables=tables)


@pytest.mark.fast
@given(problem=problems(), seed=st.integers(0, 99), wide=st.booleans())
@settings(max_examples=80, deadline=None)
def test_no_step_makes_an_answer_worse(problem: Problem, seed: int, wide: bool) -> None:
    problem = with_axes(problem, seed)
    numbers = Ledger(problem).numbers()
    made = CoordinateSteps(problem, Meter(Budget()))
    made.is_wide = wide
    rng = np.random.default_rng(seed)
    drawn = [tuple(int(rng.integers(0, c)) for c in problem.sizes) for _ in range(2)]
    if seed % 2:
        drawn.append(Exhaustive().solve(problem, Budget()).choice or ())
    drawn.sort(key=lambda c: priced_cost(numbers, problem.edges, c))
    found = made.step(numbers, drawn, made.levels)
    after = priced_cost(numbers, problem.edges, found)
    assert after <= priced_cost(numbers, problem.edges, drawn[0]) * (1 + 1e-12)


@pytest.mark.parametrize("largest", [1 << 20, 1 << 15, 0])
def test_a_graph_too_wide_for_exact_steps_is_improved_all_the_same(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LARGEST_BUCKET", largest)
    problem = deep_problem(layers=3)
    numbers = Ledger(problem).numbers()
    made = CoordinateSteps(problem, Meter(Budget()))
    before = (0,) * len(problem.sizes)
    after = made.step(numbers, [before], 0)
    assert made.is_wide == (largest == 0)
    assert problem.cost_s(after) < 0.5 * problem.cost_s(before)


@pytest.mark.parametrize("seed", range(4))
def test_messages_that_gain_nothing_leave_the_answer_as_it_is(seed: int) -> None:
    """Every node beside every other: messages go round in circles and do not settle."""
    rng = np.random.default_rng(seed)
    pairs = tuple((u, v) for u in range(12) for v in range(u + 1, 12))
    problem = Problem(
        (NodeTable(rng.random(3)),), tuple(EdgeTable(rng.random((3, 3))) for _ in pairs),
        (0,) * 12, ((),) * 12, pairs, tuple(range(len(pairs))), ((),) * len(pairs), 1, math.inf,
    )  # fmt: skip
    numbers = Ledger(problem).numbers()
    made = CoordinateSteps(problem, Meter(Budget()))
    made.is_wide = True
    best = Exhaustive().solve(problem, Budget()).choice
    assert best is not None
    assert made.step(numbers, [best], 0) == best
