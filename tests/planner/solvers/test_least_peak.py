"""The least peak: what is found is a choice with that peak, and the bound is one of all choices."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem import NodeTable, Problem
from planner.solvers import Budget
from planner.solvers.least_peak import is_narrow, least_peak
from tests.planner.solvers.random_problems import deep_problem, problems

BUDGET = Budget()


def true_least(problem: Problem) -> float:
    every = itertools.product(*(range(size) for size in problem.sizes))
    return min(problem.peak_bytes(choice) for choice in every)


@given(problem=problems())
@settings(max_examples=40, deadline=None)
def test_the_bound_is_below_every_choice_and_the_peak_is_that_of_one(problem: Problem) -> None:
    found, least = least_peak(problem, BUDGET), true_least(problem)
    assert found.bound_bytes <= least <= found.peak_bytes
    assert found.peak_bytes == problem.peak_bytes(found.choice)


@given(problem=problems(), share=st.floats(0.5, 1.5))
@settings(max_examples=40, deadline=None)
def test_an_amount_is_called_too_little_only_if_it_is(problem: Problem, share: float) -> None:
    least = true_least(problem)
    found = least_peak(problem, BUDGET, share * least)
    if share < 1:
        assert found.peak_bytes > share * least or least == 0
    else:
        assert found.bound_bytes <= share * least * (1 + 1e-9)


@given(problem=problems(), share=st.floats(0.8, 1.2))
@settings(max_examples=40, deadline=None)
def test_it_ends_when_it_is_clear_or_nothing_more_is_found(problem: Problem, share: float) -> None:
    until = share * true_least(problem)
    found = least_peak(problem, BUDGET, until)
    clear = found.peak_bytes <= until or found.bound_bytes > until
    assert clear or found == least_peak(problem, BUDGET)


def test_the_time_point_that_holds_most_decides() -> None:
    tables = tuple(NodeTable(np.zeros(1), (np.array([nbytes]),)) for nbytes in (1.0, 5.0, 3.0))
    spans = tuple(((time, time + 1),) for time in range(3))
    problem = Problem(tables, (), (0, 1, 2), spans, (), (), (), 3, math.inf)
    assert least_peak(problem, BUDGET).bound_bytes == pytest.approx(5.0)


@pytest.mark.parametrize("halved", [False, True])
def test_at_one_time_point_it_is_found_whatever_the_width(
    halved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if halved:
        monkeypatch.setattr("planner.solvers.least_peak.LARGEST_WORK", 0)
    problem = deep_problem(3, width=5)
    assert is_narrow(problem, BUDGET) is not halved
    found = least_peak(problem, BUDGET)
    least = math.fsum(
        float(problem.node_tables[table].memory_bytes[0].min()) for table in problem.node_table_of
    )
    assert found.peak_bytes == pytest.approx(least, rel=1e-12)
    assert found.bound_bytes == pytest.approx(least, rel=1e-9)


def test_looking_on_never_makes_it_worse() -> None:
    problem = deep_problem(3, width=5)
    soon, long = least_peak(problem, BUDGET, 0.0), least_peak(problem, BUDGET)
    assert soon.bound_bytes <= long.bound_bytes <= long.peak_bytes <= soon.peak_bytes
