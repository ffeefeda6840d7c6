"""Causes in bare problems: chains of numbers in which one thing was made worse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from planner.explain import Hold, ObstacleKind, why_candidate
from planner.problem import EdgeTable, NodeTable, Problem
from planner.solvers import Budget, solver_by_name

pytestmark = pytest.mark.fast

NODES, WAYS = 6, 3
RAISED = 5.0


def chain(seed: int) -> Problem:
    """Random costs below 1; the memory of a candidate is 1 to 10."""
    rng = np.random.default_rng(seed)
    ends = tuple((i, i + 1) for i in range(NODES - 1))
    return Problem(
        tuple(
            NodeTable(rng.random(WAYS), (np.floor(1 + 10 * rng.random(WAYS)),))
            for _ in range(NODES)
        ),
        tuple(EdgeTable(rng.random((WAYS, WAYS))) for _ in ends),
        tuple(range(NODES)), (((0, 1),),) * NODES,
        ends, tuple(range(len(ends))), ((),) * len(ends), 1, math.inf,
    )  # fmt: skip


def best(problem: Problem) -> tuple[int, ...]:
    choice = solver_by_name("exhaustive").solve(problem, Budget(), None).choice
    assert choice is not None
    return choice


def node_raised(problem: Problem, node: int, own: int) -> tuple[Problem, ObstacleKind, int]:
    tables = list(problem.node_tables)
    time_s = tables[node].time_s.copy()
    time_s[own] += RAISED
    tables[node] = replace(tables[node], time_s=time_s)
    return replace(problem, node_tables=tuple(tables)), ObstacleKind.NODE, node


def edge_raised(problem: Problem, node: int, own: int) -> tuple[Problem, ObstacleKind, int]:
    tables, edge = list(problem.edge_tables), min(node, NODES - 2)
    time_s = tables[edge].time_s.copy()
    time_s[(own, slice(None)) if edge == node else (slice(None), own)] += RAISED
    tables[edge] = replace(tables[edge], time_s=time_s)
    return replace(problem, edge_tables=tuple(tables)), ObstacleKind.EDGE, edge


@pytest.mark.parametrize("raised", [node_raised, edge_raised])
@pytest.mark.parametrize("seed", range(5))
def test_a_raised_cost_is_named(
    seed: int, raised: Callable[[Problem, int, int], tuple[Problem, ObstacleKind, int]]
) -> None:
    problem = chain(seed)
    node, before = seed % NODES, best(problem)
    worse, kind, index = raised(problem, node, before[node])
    found = why_candidate(worse, node, before[node])
    assert (found[0].kind, found[0].index) == (kind, index)
    assert found[0].share_s > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_limit_is_named_where_it_moves_a_choice(seed: int) -> None:
    problem = chain(seed)
    before = best(problem)
    tight = replace(problem, memory_limit_bytes=problem.peak_bytes(before) - 1)
    after = best(tight)
    moved = [i for i in range(NODES) if after[i] != before[i]]
    for node in moved[:1]:
        found = why_candidate(tight, node, before[node])
        assert found[0].kind is ObstacleKind.MEMORY
        assert found[0].is_decisive


def test_a_hold_is_named_and_one_that_costs_nothing_is_not() -> None:
    problem = chain(7)
    before = best(problem)
    other = (before[2] + 1) % WAYS
    holds = (Hold("free", {4: np.array([before[4]])}), Hold("pin", {2: np.array([other])}))
    found = why_candidate(problem, 2, before[2], holds)
    assert [(each.kind, each.index) for each in found] == [(ObstacleKind.HOLD, 1)]
    assert math.isinf(found[0].share_s)
    assert found[0].is_decisive


def test_what_is_chosen_needs_no_reason() -> None:
    problem = chain(3)
    assert why_candidate(problem, 0, best(problem)[0]) == ()
