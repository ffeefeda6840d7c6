"""A problem and its network say the same, and moves keep account of what pairs hold."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem import Problem
from planner.reduction import reduced
from planner.reduction.problem_network import network_of
from planner.reduction.restriction import restricted
from planner.solvers import Budget, kernels, solver_by_name
from planner.solvers.dual import Dual
from planner.solvers.exhaustive import Exhaustive
from planner.solvers.kernels.arrays import empty_tree, fill
from planner.solvers.kernels.forests import improve, space_for
from planner.solvers.kernels.messages import cost_of
from tests.planner.solvers.random_problems import deep_problem, problems

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.fast
@settings(max_examples=200)
@given(problem=problems(limited=True), seed=SEEDS)
def test_cost_and_memory_are_those_of_the_problem(problem: Problem, seed: int) -> None:
    net = network_of(problem)
    draw = np.random.default_rng(seed)
    choice = [int(draw.integers(size)) for size in problem.sizes]
    assert net.evaluate(choice) == pytest.approx(problem.cost_s(choice), rel=1e-12)
    assert net.profile(choice) == pytest.approx(problem.memory_profile(choice), rel=1e-12)
    assert (net.edges[:, 0] < net.edges[:, 1]).all()
    assert len({tuple(pair) for pair in net.edges.tolist()}) == len(net.edges)


@pytest.mark.fast
@settings(max_examples=100)
@given(problem=problems(limited=True), seed=SEEDS)
def test_moves_keep_the_books_of_pairs(problem: Problem, seed: int) -> None:
    net = network_of(problem)
    dual = Dual(net)
    dual.first_answer()
    dual.run(20)
    if dual.best.choice is None:
        return
    choice, tree = dual.best.choice.copy(), empty_tree(net.time_points)
    fill(dual.arrays, choice, tree)
    change = improve(
        dual.arrays, space_for(dual.arrays), choice, tree, dual.paid, 20, 0, 12, seed, 1.0, 0.5
    )
    assert cost_of(dual.arrays, choice) == pytest.approx(dual.best.cost + change)
    assert problem.is_feasible(choice.tolist())
    worst = tree.most[1]
    fill(dual.arrays, choice, tree)
    assert tree.most[1] == pytest.approx(worst)


@pytest.mark.fast
@settings(max_examples=150)
@given(problem=problems(limited=True))
def test_prices_bound_the_optimum(problem: Problem) -> None:
    best = Exhaustive().solve(problem, Budget())
    dual = Dual(network_of(problem))
    dual.first_answer()
    dual.run(100)
    if best.is_answer:
        assert dual.bound <= best.cost_s * (1 + 1e-9)


@pytest.mark.fast
@pytest.mark.parametrize("solver", ["lagrangian", "local_search"])
def test_the_optimum_lies_between_bound_and_answer(solver: str) -> None:
    problem = _with_memory_of_pairs(layers=1)
    small = restricted(problem, [np.arange(min(size, 2)) for size in problem.sizes])
    best, found = (solver_by_name(name).solve(small, Budget()) for name in ("exhaustive", solver))
    assert found.is_answer
    assert found.bound_s * (1 - 1e-9) <= best.cost_s <= found.cost_s * (1 + 1e-12)


def test_what_reductions_do_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="pairs hold memory"):
        reduced(network_of(_with_memory_of_pairs(layers=1)))
    with pytest.raises(ValueError, match="share matrices"):
        reduced(network_of(deep_problem(layers=2)))


def test_neighbourhoods_close_what_prices_leave_open() -> None:
    """On equal layers one price switches all at once; neighbourhoods choose which."""
    problem = deep_problem(layers=12)
    free = solver_by_name("dynamic_programming").solve(problem, Budget())
    tight = dataclasses.replace(problem, memory_limit_bytes=0.6 * free.peak_bytes)
    prices = solver_by_name("lagrangian").solve(tight, Budget())
    search = solver_by_name("local_search").solve(tight, Budget())
    assert search.is_answer
    assert search.gap < 0.01
    assert search.cost_s <= prices.cost_s


def test_the_same_seed_gives_the_same_answer_on_any_number_of_cores() -> None:
    problem = deep_problem(layers=6, limit=2e7)
    found = [
        solver_by_name("local_search").solve(problem, Budget(threads=threads, seed=5))
        for threads in (1, 2)
    ]
    assert found[0].choice == found[1].choice
    assert found[0].bound_s == found[1].bound_s


def _with_memory_of_pairs(layers: int) -> Problem:
    problem = deep_problem(layers, limit=1e9)
    tables = tuple(
        dataclasses.replace(table, memory_bytes=(np.ones_like(table.time_s),))
        for table in problem.edge_tables
    )
    return dataclasses.replace(
        problem, edge_tables=tables, edge_intervals=tuple(((0, 1),) for _ in problem.edges)
    )


@pytest.mark.fast
def test_compiled_loops_are_kept_beside_what_they_were_compiled_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = kernels._digest()
    monkeypatch.setattr(kernels, "_FOLDER", tmp_path)
    (tmp_path / "loop.py").write_text("one")
    one = kernels._digest()
    (tmp_path / "loop.py").write_text("other")
    assert len({here, one, kernels._digest()}) == 3
