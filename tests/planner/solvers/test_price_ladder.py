"""Prices that rise until the memory fits, and answers joined at a layer."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from planner.problem import Problem
from planner.solvers import Budget
from planner.solvers.contract import Incumbent, Meter
from planner.solvers.ledger import Ledger
from planner.solvers.memory_prices import PriceBisection, join, solve_without_limit
from planner.solvers.propagation import PropagationRelaxation
from tests.planner.solvers.random_problems import deep_problem


def _incumbent(problem: Problem) -> Incumbent:
    limits = np.full(problem.time_points, float(problem.memory_limit_bytes))
    return Incumbent(Ledger(problem), limits)


@pytest.mark.parametrize("share", [0.9, 0.6, 0.3])
def test_the_price_rises_until_the_memory_fits(share: float) -> None:
    problem = deep_problem(layers=10)
    wave = PropagationRelaxation(Ledger(problem), Meter(Budget()))
    free = wave.solve().choice
    tight = dataclasses.replace(problem, memory_limit_bytes=share * problem.peak_bytes(free))
    incumbent, meter = _incumbent(tight), Meter(Budget())
    wave = PropagationRelaxation(incumbent.ledger, meter)
    PriceBisection(wave, incumbent, meter).run(solve_without_limit(wave, incumbent))
    assert incumbent.choice is not None
    assert tight.is_feasible(incumbent.choice)
    assert incumbent.bound_s <= incumbent.cost_s


def test_joined_answers_use_the_memory_that_one_price_leaves() -> None:
    """Two answers for equal layers: one too large, one small. Half of the layers may be large."""
    problem = deep_problem(layers=10)
    wave = PropagationRelaxation(Ledger(problem), Meter(Budget()))
    fast = wave.solve().choice
    lean = tuple(
        int(problem.node_tables[t].memory_bytes[0].argmin()) for t in problem.node_table_of
    )
    limit = 0.5 * (problem.peak_bytes(fast) + problem.peak_bytes(lean))
    incumbent = _incumbent(dataclasses.replace(problem, memory_limit_bytes=limit))
    incumbent.offer(lean, "lean")
    before = incumbent.cost_s
    join(incumbent, [fast, lean])
    assert incumbent.cost_s < before
    assert incumbent.choice is not None
    assert 0.95 * limit < problem.peak_bytes(incumbent.choice) <= limit


def test_nothing_is_joined_to_an_answer_that_is_not_there() -> None:
    problem = dataclasses.replace(deep_problem(layers=2), memory_limit_bytes=0.0)
    incumbent = _incumbent(problem)
    join(incumbent, [(0,) * len(problem.sizes)])
    assert incumbent.choice is None
