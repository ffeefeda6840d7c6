from __future__ import annotations

import dataclasses
import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem import NodeTable, Problem
from planner.solvers import Budget, Solution
from planner.solvers.dynamic_programming import DynamicProgramming
from planner.solvers.exhaustive import Exhaustive
from tests.planner.problem_faults import validate
from tests.planner.solvers.random_problems import deep_problem, permuted, problems, with_hub

CLOSE = 1e-12


def solve(problem: Problem, effort: int = 1) -> Solution:
    return DynamicProgramming().solve(problem, Budget(effort))


def enumerate_all(problem: Problem) -> Solution:
    return Exhaustive().solve(problem, Budget())


@given(problems())
@settings(deadline=None)
def test_without_a_limit_the_answer_is_the_optimum(problem: Problem) -> None:
    validate(problem)
    found, optimum = solve(problem), enumerate_all(problem)
    assert found.proof == "optimal"
    assert found.choice is not None
    assert found.cost_s == pytest.approx(optimum.cost_s, rel=CLOSE)
    assert found.cost_s == problem.cost_s(found.choice)


@given(problems(limited=True))
@settings(max_examples=200, deadline=None)
def test_with_a_limit_the_optimum_lies_between_bound_and_cost(problem: Problem) -> None:
    found, optimum = solve(problem), enumerate_all(problem)
    if optimum.proof == "infeasible":
        assert found.proof in {"infeasible", "none"}
        return
    assert found.proof != "infeasible"
    assert found.bound_s <= optimum.cost_s * (1 + CLOSE)
    if found.is_answer:
        assert found.choice is not None
        assert problem.is_feasible(found.choice)
        assert found.cost_s == problem.cost_s(found.choice)
        assert found.peak_bytes == problem.peak_bytes(found.choice)
        assert optimum.cost_s <= found.cost_s * (1 + CLOSE)
    if found.proof == "optimal":
        assert found.cost_s == pytest.approx(optimum.cost_s, rel=1e-8)


@pytest.mark.fast
@given(problems(limited=True), st.integers(2, 6))
@settings(max_examples=100, deadline=None)
def test_a_wide_graph_has_its_optimum_between_bound_and_cost(problem: Problem, bits: int) -> None:
    free = dataclasses.replace(problem, memory_limit_bytes=math.inf)
    narrow = DynamicProgramming(largest_exact=1, largest_conditioned=1 << bits)
    for case in (free, problem):
        found, optimum = narrow.solve(case, Budget()), enumerate_all(case)
        assert found.bound_s <= optimum.cost_s * (1 + CLOSE) or optimum.proof == "infeasible"
        if found.is_answer:
            assert found.choice is not None
            assert optimum.cost_s <= found.cost_s * (1 + CLOSE)
            assert found.cost_s == case.cost_s(found.choice)


@given(problems(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_nodes_does_not_change_the_cost(
    problem: Problem, random: random.Random
) -> None:
    order = list(range(len(problem.node_table_of)))
    random.shuffle(order)
    other = permuted(problem, order)
    validate(other)
    assert solve(other).cost_s == pytest.approx(solve(problem).cost_s, rel=CLOSE)


@given(problems())
@settings(deadline=None)
def test_a_limit_that_does_not_bind_changes_nothing(problem: Problem) -> None:
    free = solve(problem)
    found = solve(dataclasses.replace(problem, memory_limit_bytes=free.peak_bytes))
    assert found.proof == "optimal"
    assert found.choice == free.choice


@given(problems(limited=True))
@settings(max_examples=50, deadline=None)
def test_the_same_input_gives_the_same_answer(problem: Problem) -> None:
    assert solve(problem) == solve(problem)


def test_more_memory_is_never_slower_beyond_the_gap() -> None:
    problem = deep_problem(layers=12, width=6)
    free = solve(problem)
    costs = []
    for share in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        limit = math.floor(share * free.peak_bytes)
        costs.append(solve(dataclasses.replace(problem, memory_limit_bytes=limit)).cost_s)
    assert all(later <= earlier * 1.01 for earlier, later in itertools.pairwise(costs))
    assert costs[-1] == free.cost_s


def test_a_limit_below_the_least_memory_is_infeasible_and_tells_the_least() -> None:
    problem = deep_problem(layers=5, width=6)
    least = math.fsum(
        float(problem.node_tables[table].memory_bytes[0].min()) for table in problem.node_table_of
    )
    found = solve(dataclasses.replace(problem, memory_limit_bytes=least - 1))
    assert found.proof == "infeasible"
    assert found.peak_bytes == least
    assert math.isinf(found.bound_s)
    assert solve(dataclasses.replace(problem, memory_limit_bytes=least)).is_answer


def test_two_time_points_that_cannot_fit_together_are_not_an_answer() -> None:
    table = NodeTable(np.array([1.0, 1.0]), (np.array([10.0, 0.0]), np.array([0.0, 10.0])))
    problem = Problem(
        (table,), (), (0,), (((0, 1), (1, 2)),), (), (), (), time_points=2, memory_limit_bytes=5.0
    )
    found = solve(problem)
    assert not found.is_answer
    assert found.peak_bytes == 10.0


def test_eighty_equal_layers_are_solved_within_a_thousandth() -> None:
    problem = deep_problem(layers=80)
    free = solve(problem)
    assert free.proof == "optimal"
    tight = dataclasses.replace(problem, memory_limit_bytes=math.floor(0.5 * free.peak_bytes))
    found = solve(tight)
    assert found.is_answer
    assert found.gap < 1e-3
    assert found.peak_bytes <= tight.memory_limit_bytes


def test_the_deadline_cuts_the_work_short_and_says_so() -> None:
    problem = deep_problem(layers=40)
    tight = dataclasses.replace(problem, memory_limit_bytes=0.5 * solve(problem).peak_bytes)
    found = DynamicProgramming().solve(tight, Budget(deadline_s=0.0))
    assert found.truncated
    assert found.bound_s <= solve(tight).cost_s


def test_progress_tells_of_better_answers_and_bounds() -> None:
    problem = deep_problem(layers=10)
    tight = dataclasses.replace(problem, memory_limit_bytes=0.5 * solve(problem).peak_bytes)
    seen: list[tuple[float, float]] = []
    found = DynamicProgramming().solve(
        tight, Budget(), lambda _, cost, bound: seen.append((cost, bound))
    )
    assert seen[-1][0] == found.cost_s
    assert all(later[0] <= earlier[0] for earlier, later in itertools.pairwise(seen))
    assert all(later[1] >= earlier[1] for earlier, later in itertools.pairwise(seen))


def test_a_problem_without_nodes_costs_nothing() -> None:
    problem = Problem((), (), (), (), (), (), (), time_points=0, memory_limit_bytes=0.0)
    found = solve(problem)
    assert found.choice == ()
    assert found.cost_s == 0.0
    assert found.proof == "optimal"


@pytest.mark.fast
def test_copies_of_a_hub_agree_in_equal_layers_and_prove_the_answer() -> None:
    problem = with_hub(deep_problem(layers=8, width=5), candidates=20)
    validate(problem)
    optimum = solve(problem)
    assert optimum.proof == "optimal"
    found = DynamicProgramming(largest_exact=1, largest_conditioned=1 << 18).solve(
        problem, Budget()
    )
    assert found.bound_s <= optimum.cost_s * (1 + CLOSE)
    assert found.cost_s == pytest.approx(optimum.cost_s, rel=CLOSE)
    assert found.gap < 1e-3


def test_a_wide_graph_with_a_limit_comes_close_to_exact_elimination() -> None:
    problem = with_hub(deep_problem(layers=8, width=5), candidates=20)
    limit = math.floor(0.5 * solve(problem).peak_bytes)
    tight = dataclasses.replace(problem, memory_limit_bytes=limit)
    exact = solve(tight)
    found = DynamicProgramming(largest_exact=1, largest_conditioned=1 << 18).solve(tight, Budget())
    assert found.is_answer
    assert found.bound_s <= exact.cost_s
    assert exact.bound_s <= found.cost_s
    assert found.cost_s <= exact.cost_s * 1.02
