"""Recursive bisection: tier by tier, at any width, within memory where an answer can be found."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem import EdgeTable, NodeTable, Problem
from planner.solvers import Budget, solver_by_name
from planner.solvers.contract import Meter
from planner.solvers.exhaustive import Exhaustive
from planner.solvers.ledger import Ledger
from planner.solvers.recursive_bisection import BisectionRelaxation, RecursiveBisection
from tests.planner.solvers.random_problems import deep_problem, problems
from tests.planner.solvers.test_coordinate_steps import with_axes


@given(problem=problems(limited=True), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_hints_of_any_kind_leave_bound_and_answer_true(problem: Problem, seed: int) -> None:
    problem = with_axes(problem, seed)
    found = RecursiveBisection().solve(problem, Budget())
    optimum = Exhaustive().solve(problem, Budget())
    assert found.is_answer == (found.choice is not None and problem.is_feasible(found.choice))
    if optimum.is_answer:
        assert found.bound_s <= optimum.cost_s * (1 + 1e-12)
        assert found.proof != "infeasible"
    else:
        assert found.proof in {"infeasible", "none"}


@pytest.mark.fast
def test_the_slowest_axis_is_decided_first() -> None:
    """Two axes: on the slow one only splitting by rows (1) is cheap, on the fast one either."""
    rows = np.array([[a, b] for a in range(3) for b in range(3)], dtype=np.intp)
    work = np.array([1.0 / ((1 + (a > 0)) * (1 + (b > 0))) for a, b in rows])
    sent = np.where(rows[:, 0] == 2, 5.0, 0.0) + np.where(rows[:, 1] == 2, 0.01, 0.02)
    problem = _chain(NodeTable(work + sent, axes=rows), 4)
    bisection = BisectionRelaxation(Ledger(problem), Meter(Budget()))
    numbers = Ledger(problem).numbers()
    steps = bisection.steps
    assert steps.levels == 2
    first = steps.first(numbers)
    assert [rows[c].tolist() for c in first] == [[0, 0]] * 4
    coarse = steps.step(numbers, [first], 1)
    assert [rows[c].tolist() for c in coarse] == [[1, 0]] * 4
    fine = steps.step(numbers, [coarse], 2)
    assert [rows[c].tolist() for c in fine] == [[1, 2]] * 4


def _chain(table: NodeTable, nodes: int) -> Problem:
    size = len(table.time_s)
    edge = EdgeTable(0.1 * (1.0 - np.eye(size)))
    return Problem(
        (table,), (edge,), (0,) * nodes, ((),) * nodes,
        tuple((i, i + 1) for i in range(nodes - 1)), (0,) * (nodes - 1), ((),) * (nodes - 1),
        1, math.inf,
    )  # fmt: skip


def test_a_deep_problem_is_solved_within_tight_memory() -> None:
    problem = deep_problem(layers=20)
    best = solver_by_name("dynamic_programming").solve(problem, Budget())
    free = RecursiveBisection().solve(problem, Budget())
    assert free.cost_s <= best.cost_s * 1.001
    tight = dataclasses.replace(problem, memory_limit_bytes=0.3 * best.peak_bytes)
    found = RecursiveBisection().solve(tight, Budget())
    assert found.proof == "bounded"
    assert found.gap < 0.03
    assert found.peak_bytes > 0.97 * tight.memory_limit_bytes


def _complete(nodes: int, candidates: int, seed: int = 0) -> Problem:
    """Every node beside every other: no elimination is narrow."""
    rng = np.random.default_rng(seed)
    pairs = tuple((u, v) for u in range(nodes) for v in range(u + 1, nodes))
    axes = rng.integers(0, 4, size=(candidates, 4)).astype(np.intp)
    return Problem(
        (NodeTable(rng.random(candidates), (np.ones(candidates),), axes),),
        tuple(EdgeTable(rng.random((candidates, candidates))) for _ in range(5)),
        (0,) * nodes, (((0, 1),),) * nodes, pairs,
        tuple(i % 5 for i in range(len(pairs))), ((),) * len(pairs), 1, math.inf,
    )  # fmt: skip


def test_no_graph_is_too_wide() -> None:
    problem = _complete(nodes=40, candidates=40)
    found = RecursiveBisection().solve(problem, Budget())
    assert found.proof == "bounded"
    rng = np.random.default_rng(1)
    drawn = [problem.cost_s(rng.integers(0, 40, size=40).tolist()) for _ in range(200)]
    assert found.cost_s < min(drawn)


@pytest.mark.parametrize("limit", [math.inf, 0.4])
def test_the_same_effort_gives_the_same_answer(limit: float) -> None:
    problem = deep_problem(layers=5)
    peak = solver_by_name("dynamic_programming").solve(problem, Budget()).peak_bytes
    problem = dataclasses.replace(problem, memory_limit_bytes=limit * peak)
    first, second = (RecursiveBisection().solve(problem, Budget(threads=t)) for t in (1, 2))
    assert first == second


@pytest.mark.fast
def test_a_deadline_in_the_past_still_gives_an_answer() -> None:
    found = RecursiveBisection().solve(deep_problem(layers=30), Budget(deadline_s=0.0))
    assert found.truncated
    assert found.proof == "bounded"
