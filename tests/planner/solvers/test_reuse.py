from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.problem import Problem
from planner.solvers import Budget
from planner.solvers.contract import Meter
from planner.solvers.ledger import Ledger, Prices, Reuse
from planner.solvers.relaxation import ExactRelaxation, exact_relaxation
from tests.planner.solvers.random_problems import deep_problem, problems


def _relaxation(problem: Problem) -> ExactRelaxation:
    found = exact_relaxation(Ledger(problem), Meter(Budget(effort=1000)), 1 << 20)
    assert found is not None
    return found


def _prices(problem: Problem, seed: int) -> list[Prices | None]:
    """A search's way: one price after the other, the same ones split at other nodes, and back."""
    rng = np.random.default_rng(seed)
    one, other = rng.random((2, problem.time_points)) * 1e-3
    nodes = len(problem.node_table_of)
    splits = [Prices(one, other, int(n)) for n in rng.integers(0, nodes + 1, 4)]
    lean = Prices(one, time_weight=0.0)
    return [None, Prices(one), *splits, Prices(other), lean, Prices(one), None]


@given(problem=problems(), seed=st.integers(0, 1000))
def test_a_relaxation_that_has_worked_before_answers_as_a_new_one(
    problem: Problem, seed: int
) -> None:
    old = _relaxation(problem)
    for prices in _prices(problem, seed):
        again, new = old.solve(prices), _relaxation(problem).solve(prices)
        assert (again.choice, again.bound) == (new.choice, new.bound)


def test_equal_layers_are_eliminated_again_only_where_the_prices_changed() -> None:
    problem = deep_problem(40, limit=math.inf)
    relaxation = _relaxation(problem)
    one, other = np.full((2, problem.time_points), 1e-3) * [[1.0], [2.0]]
    relaxation.solve(Prices(one, other, 10))
    before = set(relaxation._reuse._now)
    relaxation.solve(Prices(one, other, 12))
    after = set(relaxation._reuse._now)
    assert 0 < len(after - before) < len(after)


def test_values_are_kept_for_one_pass_more() -> None:
    reuse = Reuse()
    calls: list[str] = []

    def made(name: str) -> str:
        calls.append(name)
        return name

    def value(name: str) -> str:
        return reuse.of(name, lambda: made(name))

    reuse.begin()
    assert value("a") + value("a") + value("b") == "aab"
    reuse.begin()
    assert value("a") == "a"
    reuse.begin()
    assert value("b") + value("a") == "ba"
    assert calls == ["a", "b", "b"]
