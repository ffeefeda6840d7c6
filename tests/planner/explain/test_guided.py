"""Answers near a plan fit, and their bounds hold, where memory binds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import planner.explain.operator as operator_module
from planner.explain.guided import at_prices
from planner.explain.operator import explained, guided
from planner.explain.plan_problem import PlanProblem
from planner.explain.reasons import Subject
from planner.explain.restricted_problem import MemoryPrices, memory_prices
from planner.lowering.lowered import Lowered
from planner.reduction.restriction import restricted
from planner.solvers import Budget, solver_by_name
from tests.builders import mlp
from tests.planner.explain.planted import limited, lowered_model, moved, operators, solved


@pytest.fixture(scope="module", params=["mindspore", "torch"])
def lowered(request: pytest.FixtureRequest) -> Lowered:
    found = lowered_model(mlp(3), request.param)
    limit = solved(found).plan_answer.peak_bytes * 0.8
    return replace(found, problem=replace(found.problem, memory_limit_bytes=limit))


@pytest.fixture(scope="module")
def tight(lowered: Lowered) -> tuple[PlanProblem, MemoryPrices]:
    blank = PlanProblem.of(lowered, (0,) * len(lowered.nodes))
    case = PlanProblem.of(lowered, blank.posed.thorough().answer().choice)
    return case, memory_prices(case.posed)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a small problem is thought a large one."""
    monkeypatch.setattr(operator_module, "SMALL", 0)


def exact(case: PlanProblem, number: int, candidates: list[int]) -> tuple[float, float]:
    """Cost and bound of the best with these candidates that fits."""
    posed = case.posed
    allowed = posed.allowed({number: np.array(candidates, dtype=np.intp)})
    problem = restricted(posed.problem, allowed)
    found = solver_by_name("ilp").solve(problem, Budget(), None)
    return (found.cost_s if found.is_answer else math.inf), found.bound_s


@pytest.mark.usefixtures("large")
def test_near_answers_fit_and_their_bounds_hold(tight: tuple[PlanProblem, MemoryPrices]) -> None:
    case = guided(*tight)
    assert case.posed.guide is not None
    for number in operators(case.lowered):
        for candidate in range(0, case.lowered.problem.sizes[number], 9):
            alike = Subject(case, number).alike(candidate)
            answer = case.posed.answer({number: alike})
            best_s, _ = exact(case, number, alike.tolist())
            if answer.fits:
                assert case.posed.problem.fits(case.posed.problem.peak_bytes(answer.choice))
                assert answer.choice[number] in alike
                assert answer.bound_s <= best_s * (1 + 1e-9)
                assert best_s <= answer.cost_s * (1 + 1e-9)
            else:
                assert math.isinf(best_s)


def test_the_price_bounds_everything_that_fits(tight: tuple[PlanProblem, MemoryPrices]) -> None:
    case, prices = tight
    for factor in (0.0, 0.5, 1.0, 2.0):
        allowed = case.posed.allowed()
        found = at_prices(case.posed.problem, prices.per_byte, allowed, factor)
        assert found.cost_s <= case.plan_answer.cost_s * (1 + 1e-9)


@pytest.mark.usefixtures("large")
def test_with_a_guide_the_planted_limit_is_named_too() -> None:
    lowered = lowered_model(mlp(2), "torch")
    planted = next(filter(moved, limited(lowered, 0.7)))
    alike = Subject(planted.case, planted.node).alike(planted.candidate)
    found = explained(planted.case, planted.node, asked=alike.tolist())
    assert found.rivals[0].reasons[0].kind == "memory limit"
    assert found.memory is not None
    assert found.memory.is_binding
