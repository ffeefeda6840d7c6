"""One programme, two back ends: both find what enumeration finds."""

from __future__ import annotations

import dataclasses
import math
import time

import numpy as np
import pytest

from planner.problem import Problem
from planner.reduction.problem_network import network_of
from planner.reduction.state import without
from planner.solvers import Budget
from planner.solvers.contract import Solution
from planner.solvers.exhaustive import Exhaustive
from planner.solvers.integer_programming import prove
from planner.solvers.network_mip import prove as prove_network
from planner.solvers.programme import Programme
from tests.planner.solvers.random_problems import random_problem

pytestmark = pytest.mark.fast
SECONDS = 20.0


def limited(seed: int) -> Problem:
    """A problem with memory of nodes and pairs, whose limit some choices exceed."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 6, "graph" if seed % 2 else "tree", 3)
    peaks = [problem.peak_bytes([int(rng.integers(0, c)) for c in problem.sizes]) for _ in range(9)]
    return dataclasses.replace(problem, memory_limit_bytes=float(np.median(peaks)))


@pytest.mark.parametrize("seed", range(8))
def test_both_back_ends_find_the_best(seed: int) -> None:
    problem = limited(seed)
    best = Exhaustive().solve(problem, Budget())
    start = tuple(0 for _ in problem.sizes)
    fits = problem.is_feasible(start)
    warm = Solution(start, problem.cost_s(start), -math.inf, "bounded" if fits else "none", 0.0,
                    truncated=False)  # fmt: skip
    exact = prove(problem, Budget(), warm)
    net = network_of(problem)
    own = without(net, np.ones(len(net.cost), dtype=np.bool_)).network
    floating = prove_network(own, None, [], time.monotonic() + SECONDS, 0)
    assert floating.optimal
    if best.proof == "infeasible":
        assert exact.proof == "infeasible"
        assert floating.choice is None
    else:
        assert exact.cost_s == pytest.approx(best.cost_s, rel=1e-12)
        assert floating.cost == pytest.approx(best.cost_s, rel=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_the_columns_of_a_choice_keep_every_row_and_hold_what_it_holds(seed: int) -> None:
    problem = limited(seed)
    net = network_of(problem)
    own = without(net, np.ones(len(net.cost), dtype=np.bool_)).network
    programme = Programme(own, np.ones(len(own.edge_cost), dtype=np.bool_))
    rng = np.random.default_rng(seed)
    choice = [int(rng.integers(0, size)) for size in problem.sizes]
    chosen = np.zeros(len(own.cost), dtype=np.bool_)
    chosen[own.first[:-1] + np.array(choice)] = True
    columns = programme.columns_of(chosen).astype(np.float64)
    sums = np.bincount(programme.row_of, programme.factor * columns[programme.column_of])
    assert (sums == programme.sides).all()
    assert programme.paid @ columns[programme.paid_column] == pytest.approx(problem.cost_s(choice))
    for point, held in enumerate(problem.memory_profile(choice)):
        assert programme.add_memory(point)
        used, amounts = programme.memory[point]
        assert amounts @ columns[used] == pytest.approx(held)
