"""The planner's answer is the best of its declared space, found again by enumeration."""

from __future__ import annotations

import pytest

from planner.solvers import Budget, solver_by_name
from tests.builders import attention_block, mlp
from tests.planner.enumeration import Enumeration
from tests.planner.lowering_of import all_lowered

pytestmark = pytest.mark.fast


def optimum(problem: object) -> float:
    solution = solver_by_name("dynamic_programming").solve(problem, Budget(), None)  # type: ignore[arg-type]
    assert solution.proof == "optimal"
    return solution.cost_s


@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize("devices", [4, 8])
@pytest.mark.parametrize("layers", [2, 3, 4])
def test_a_perceptron_costs_what_enumeration_finds(layers: int, devices: int, target: str) -> None:
    for lowered in all_lowered(mlp(layers), devices, target):
        found = Enumeration(lowered.problem, fold=layers == 4 and target == "mindspore").run()
        assert optimum(lowered.problem) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize("devices", [4, 8])
def test_an_attention_block_costs_what_enumeration_finds(devices: int, target: str) -> None:
    for lowered in all_lowered(attention_block(), devices, target):
        found = Enumeration(lowered.problem, fold=True).run()
        assert optimum(lowered.problem) == pytest.approx(found, rel=1e-12)
