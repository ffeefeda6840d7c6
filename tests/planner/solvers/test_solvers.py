from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from hypothesis import given, settings

from planner.problem import Problem
from planner.solvers import SOLVERS, Budget, solver_by_name
from planner.solvers.contract import Solution
from planner.solvers.exhaustive import Exhaustive
from planner.solvers.least_peak import least_peak
from tests.planner.solvers.random_problems import deep_problem, problems


@pytest.mark.fast
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_is_loaded_by_its_name(name: str) -> None:
    assert solver_by_name(name).name == name


PATIENT = ("lagrangian", "local_search")
"""They take a tenth of a second for each problem, however small it is."""


@given(problem=problems(limited=True))
@settings(max_examples=150, deadline=None)
def test_every_solver_reports_the_cost_of_the_problem_and_a_valid_bound(problem: Problem) -> None:
    optimum = Exhaustive().solve(problem, Budget())
    for name in SOLVERS:
        if name not in PATIENT:
            _check_answer(name, problem, optimum)


@pytest.mark.fast
@pytest.mark.parametrize("name", PATIENT)
@given(problem=problems(limited=True))
@settings(max_examples=40, deadline=None)
def test_patient_solvers_report_the_cost_of_the_problem_and_a_valid_bound(
    name: str, problem: Problem
) -> None:
    _check_answer(name, problem, Exhaustive().solve(problem, Budget()))


def _check_answer(name: str, problem: Problem, optimum: Solution) -> None:
    found = solver_by_name(name).solve(problem, Budget())
    assert found.choice is not None
    assert found.cost_s == problem.cost_s(found.choice)
    assert found.peak_bytes == problem.peak_bytes(found.choice)
    assert found.is_answer == problem.is_feasible(found.choice)
    if optimum.is_answer:
        assert found.bound_s <= optimum.cost_s * (1 + 1e-12)
        assert found.proof != "infeasible"
        if name in {"ilp", "exhaustive"}:
            assert found.proof == "optimal"
            assert found.cost_s == pytest.approx(optimum.cost_s, rel=1e-8)
    else:
        assert not found.is_answer


def test_integer_programming_leaves_a_large_problem_to_the_warm_start() -> None:
    problem = deep_problem(layers=40)
    free = solver_by_name("dynamic_programming").solve(problem, Budget())
    tight = dataclasses.replace(problem, memory_limit_bytes=0.5 * free.peak_bytes)
    found = solver_by_name("ilp").solve(tight, Budget())
    assert found.proof == "bounded"
    assert any("ilp" in line and "more than" in line for line in found.log)


def test_an_unknown_solver_is_answered_with_the_closest_name() -> None:
    with pytest.raises(ValueError, match="did you mean 'portfolio'"):
        solver_by_name("portfollio")


def test_enumeration_refuses_what_it_cannot_finish() -> None:
    with pytest.raises(ValueError, match=r"^10\^\d+ combinations are too many .{,50}$"):
        Exhaustive().solve(deep_problem(layers=400), Budget())


def test_importing_the_solvers_does_not_import_ortools() -> None:
    code = "import sys, planner, planner.solvers, planner.solvers.portfolio; "
    code += "sys.exit('ortools' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.fast
def test_an_interrupted_search_answers_with_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    problem = deep_problem(layers=10)
    free = solver_by_name("dynamic_programming").solve(problem, Budget())
    tight = dataclasses.replace(problem, memory_limit_bytes=0.6 * free.peak_bytes)
    monkeypatch.setattr("planner.solvers.portfolio._Run._pass_messages", interrupt)
    monkeypatch.setattr("planner.solvers.portfolio.improve", interrupt)
    monkeypatch.setattr("planner.solvers.portfolio.AFTER_BRANCHES", 0.0)
    found = solver_by_name("portfolio").solve(tight, Budget())
    assert found.interrupted
    assert found.truncated
    assert found.is_answer


def test_an_interruption_before_the_first_answer_is_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.solvers.portfolio.DynamicProgramming.run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        solver_by_name("portfolio").solve(deep_problem(layers=3), Budget())


@pytest.mark.parametrize("name", ["portfolio", "dynamic_programming"])
def test_an_answer_that_is_near_enough_is_left_as_it_is(name: str) -> None:
    deep = deep_problem(6, width=5, seed=1)
    least = least_peak(deep, Budget()).peak_bytes
    problem = dataclasses.replace(deep, memory_limit_bytes=1.05 * least)
    near, whole = (solver_by_name(name).solve(problem, Budget(enough=e)) for e in (0.3, 0.0))
    assert near.is_answer
    assert whole.gap < near.gap <= 0.3
    assert len(near.log) < len(whole.log)
