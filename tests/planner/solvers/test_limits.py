"""Limits of a choice beside the memory: solvers keep them, and no memory tells of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.problem import ChoiceLimit, Problem
from planner.reduction.restriction import restricted
from planner.solvers import Budget, solver_by_name
from tests.planner.problem_faults import validate
from tests.planner.solvers.random_problems import problems


def with_limit(problem: Problem, seed: int, most: int) -> Problem:
    """The problem in which half of all candidates count."""
    rng = np.random.default_rng(seed)
    amounts = {
        node: rng.integers(0, 2, size=size).astype(np.float64)
        for node, size in enumerate(problem.sizes)
    }
    return replace(problem, limits=(ChoiceLimit(amounts, most),))


@pytest.mark.parametrize("name", ["exhaustive", "portfolio", "ilp"])
@given(problem=problems(limited=True), seed=st.integers(0, 99), most=st.integers(0, 3))
def test_the_answer_is_the_best_of_all_choices_that_keep_the_limit(
    name: str, problem: Problem, seed: int, most: int
) -> None:
    # A limit is a share of the memory, of which there is some.
    assume(problem.memory_limit_bytes > 0)
    limited = with_limit(problem, seed, most)
    validate(limited)
    every = itertools.product(*map(range, problem.sizes))
    best_s = min((problem.cost_s(c) for c in every if limited.is_feasible(c)), default=math.inf)
    found = solver_by_name(name).solve(limited, Budget())
    if math.isinf(best_s):
        assert not found.is_answer
        return
    assert found.choice is not None
    assert limited.is_feasible(found.choice)
    assert found.cost_s == pytest.approx(best_s)
    assert found.peak_bytes == problem.peak_bytes(found.choice)


@given(problem=problems(), seed=st.integers(0, 99))
def test_fewer_candidates_take_what_they_took(problem: Problem, seed: int) -> None:
    limited = with_limit(problem, seed, 1)
    allowed = [np.arange(size)[-1:] for size in problem.sizes]
    less = restricted(limited, allowed)
    validate(less)
    last = [size - 1 for size in problem.sizes]
    assert less.is_feasible([0] * len(last)) == limited.is_feasible(last)
