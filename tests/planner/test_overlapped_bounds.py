"""No bound is above the step of any plan: parts of lowered networks, all plans enumerated."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Setting
from planner.lowering.optimizer_states import StateOptions
from planner.pipeline.preparation import dialect_for, input_layouts, prepare
from planner.problem import Problem
from planner.reduction.restriction import restricted
from planner.request import SearchRequest
from planner.solvers import Budget, solver_by_name
from planner.solvers.bounding_sums import bounding_sums
from tests.builders import mlp
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

MOST = 3
"""Candidates of a node that are kept."""
SETTINGS = {
    "links of two tiers": {"profile": "generic"},
    "states in parts": {"profile": "generic", "zero": "auto"},
    "a slow host": {"profile": "torchtitan", "zero": "auto"},
}


def problem_of(target: str, name: str, seed: int) -> Problem:
    """Some candidates of two products in layers of their own, on two servers of eight devices."""
    whole = whole_problem(target, name)
    rng = np.random.default_rng(seed)
    return restricted(whole, [np.sort(rng.permutation(n)[:MOST]) for n in whole.sizes])


@cache
def whole_problem(target: str, name: str) -> Problem:
    """The same with all candidates."""
    asked = SETTINGS[name]
    machine = named_cluster("dgx-h100", 16)
    request = SearchRequest(target=target, profile=asked["profile"])
    graph = mlp(2, batch=8192, width=2048, hidden=2048)
    graph = graph.with_ops(replace(o, scope=f"layers.{n}") for n, o in enumerate(graph.ops))
    ready, _ = prepare(graph, machine, request)
    dialect = dialect_for(request, machine.devices)
    mesh = dialect.meshes(machine)[0]
    setting = Setting(
        machine, mesh, dialect, request.training, request.optimizer,
        input_layouts(ready, mesh, dialect, request), math.inf, overlap=True,
        software=request.software_on(machine.chip),
        states=StateOptions(asked["zero"]) if "zero" in asked else None,
    )  # fmt: skip
    return lower(analyse(ready, training=True), setting).problem


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("target", ["torch", "mindspore"])
def test_no_bound_is_above_the_step_of_any_plan(target: str, name: str, seed: int) -> None:
    problem = problem_of(target, name, seed)
    overlap = problem.overlap
    assert overlap is not None
    rng, form = np.random.default_rng(seed), overlap.form
    shape = (overlap.count, len(form.windows))

    def some(_: Problem) -> tuple[int, ...]:
        return tuple(int(rng.integers(n)) for n in problem.sizes)

    priced = [
        problem.with_all_hidden(),
        *(sums for sums, _ in bounding_sums(problem, some)),
        problem.at_prices(list(rng.dirichlet(np.ones(form.resources), size=shape))),
    ]
    every = list(itertools.product(*map(range, problem.sizes)))
    steps = np.array([problem.cost_s(choice) for choice in every])
    for sums in priced:
        for number in rng.permutation(len(every))[:200]:
            bound_s = sums.cost_s(every[number])
            assert bound_s <= steps[number] * (1 + 1e-9)
    peaks = np.array([problem.peak_bytes(choice) for choice in every])
    for limit in (math.inf, float(np.quantile(peaks, 0.1))):
        best_s = steps[peaks <= limit].min()
        posed = replace(problem, memory_limit_bytes=limit)
        for solver in ("portfolio", "dynamic_programming"):
            found = solver_by_name(solver).solve(posed, Budget())
            assert found.bound_s <= best_s * (1 + 1e-9)
            assert found.choice is None or found.cost_s >= best_s * (1 - 1e-9)
