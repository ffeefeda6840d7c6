"""Laws of message passing: the bound is true whatever was told before, and chains are exact."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem import Problem
from planner.solvers import Budget
from planner.solvers.contract import Meter
from planner.solvers.exhaustive import Exhaustive
from planner.solvers.ledger import Ledger, Prices, priced_cost
from planner.solvers.message_passing import MessagePassing
from tests.planner.solvers.random_problems import deep_problem, problems, random_problem


def _messages(problem: Problem) -> MessagePassing:
    return MessagePassing(len(problem.sizes), problem.edges)


@given(problem=problems(), passes=st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_the_optimum_lies_between_bound_and_answer(problem: Problem, passes: int) -> None:
    optimum = Exhaustive().solve(problem, Budget()).cost_s
    numbers = Ledger(problem).numbers()
    found = _messages(problem).run(numbers, passes, Meter(Budget()))
    slack = 1e-12 * abs(optimum)
    assert found.bound <= optimum + slack
    assert _messages(problem).bound(numbers) <= optimum + slack
    assert found.cost == pytest.approx(problem.cost_s(found.choice))
    assert found.cost >= optimum - slack


@given(problem=problems(), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_messages_of_other_prices_leave_the_bound_true(problem: Problem, seed: int) -> None:
    ledger, messages, meter = Ledger(problem), _messages(problem), Meter(Budget())
    dear = Prices(np.random.default_rng(seed).random(problem.time_points))
    messages.run(ledger.numbers(dear), 2, meter)
    optimum = Exhaustive().solve(problem, Budget()).cost_s
    assert messages.run(ledger.numbers(), 1, meter).bound <= optimum * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_chain_is_solved_in_one_pass(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), 8, "chain", 1)
    edges = tuple(dict.fromkeys(tuple(sorted(pair)) for pair in problem.edges))
    keep = [[tuple(sorted(p)) for p in problem.edges].index(pair) for pair in edges]
    problem = dataclasses.replace(
        problem,
        edges=tuple(problem.edges[i] for i in keep),
        edge_table_of=tuple(problem.edge_table_of[i] for i in keep),
        edge_intervals=tuple(problem.edge_intervals[i] for i in keep),
    )
    numbers = Ledger(problem).numbers()
    found = _messages(problem).run(numbers, 1, Meter(Budget()))
    assert found.cost == pytest.approx(found.bound, rel=1e-12)
    assert _messages(problem).bound(numbers) == pytest.approx(found.cost, rel=1e-12)


def test_more_passes_come_closer() -> None:
    problem = deep_problem(layers=6)
    numbers = Ledger(problem).numbers()
    one, many = (_messages(problem).run(numbers, n, Meter(Budget())) for n in (1, 8))
    assert one.bound < many.bound <= many.cost <= one.cost
    assert many.cost - many.bound < 0.5 * (one.cost - one.bound)


def test_one_pass_is_made_whatever_is_left() -> None:
    problem = deep_problem(layers=2)
    found = _messages(problem).run(Ledger(problem).numbers(), 9, Meter(Budget(deadline_s=0.0)))
    assert priced_cost(Ledger(problem).numbers(), problem.edges, found.choice) == found.cost
