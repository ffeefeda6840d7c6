"""Gaps that one price on memory leaves, and that branches and joint prices close."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.problem import EdgeTable, NodeTable, Problem
from planner.solvers import Budget, Solution
from planner.solvers.branch_and_bound import cross
from planner.solvers.contract import Incumbent, Meter
from planner.solvers.dynamic_programming import DynamicProgramming
from planner.solvers.ledger import Ledger
from tests.planner.problem_faults import validate

LAYERS = 40
Node = tuple[Sequence[float], Sequence[float], tuple[int, int]]
"""Seconds and bytes of each candidate, and when they are held."""


def chain(nodes: Sequence[Node], time_points: int, limit: float) -> Problem:
    """Nodes in a row, with edges that cost nothing; equal ones share their tables."""
    tables: dict[tuple[tuple[float, ...], tuple[float, ...]], int] = {}
    of = [tables.setdefault((tuple(t), tuple(m)), len(tables)) for t, m, _ in nodes]
    node_tables = tuple(NodeTable(np.array(t), (np.array(m),)) for t, m in tables)
    return Problem(
        node_tables=node_tables,
        edge_tables=(EdgeTable(np.zeros((2, 2))),),
        node_table_of=tuple(of),
        node_intervals=tuple((interval,) for _, _, interval in nodes),
        edges=tuple((i, i + 1) for i in range(len(nodes) - 1)),
        edge_table_of=(0,) * (len(nodes) - 1),
        edge_intervals=((),) * (len(nodes) - 1),
        time_points=time_points,
        memory_limit_bytes=limit,
    )


def solve(problem: Problem) -> Solution:
    validate(problem)
    return DynamicProgramming().solve(problem, Budget())


def layers(interval: tuple[int, int]) -> list[Node]:
    """Each saves one byte for a fifth of a second."""
    return [((1.0, 1.2), (1.0, 0.0), interval)] * LAYERS


def test_a_group_that_occurs_once_is_all_lean_or_all_fast() -> None:
    head: Node = ((0.0, 3.0), (10.0, 0.0), (0, 1))
    found = solve(chain([*layers((0, 1)), head], 1, 5.0))
    assert found.cost_s == pytest.approx(3.0 + 35 * 1.2 + 5 * 1.0)
    assert found.bound_s == pytest.approx(found.cost_s, rel=1e-6)


def test_a_second_time_point_binds_where_the_price_of_the_first_would_mix() -> None:
    first_only: Node = ((0.0, 0.001), (20.0, 0.0), (0, 1))
    second_only: Node = ((0.0, 0.0), (5.0, 5.0), (1, 2))
    found = solve(chain([first_only, *layers((0, 2)), second_only], 2, 10.0))
    assert found.cost_s == pytest.approx(0.001 + 35 * 1.2 + 5 * 1.0)
    assert found.bound_s == pytest.approx(found.cost_s, rel=1e-4)


@pytest.mark.parametrize("deadline_s", [0.0, None])
def test_a_crossover_that_the_clock_ends_says_so(deadline_s: float | None) -> None:
    problem = chain(layers((0, 1)), 1, 5.0)
    incumbent = Incumbent(Ledger(problem), np.full(1, 5.0))
    lean, fast = (1,) * LAYERS, (0,) * LAYERS
    incumbent.offer(lean, "lean")
    incumbent.pool[fast] = None
    meter = Meter(Budget(deadline_s=deadline_s))
    cross(incumbent, meter, 0.0)
    assert meter.truncated == (deadline_s is not None)
    if deadline_s is None:
        assert incumbent.cost_s == pytest.approx(35 * 1.2 + 5 * 1.0)


@given(
    heads=st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=3, unique=True
    ),
    limit=st.integers(0, 60),
)
@settings(max_examples=60, deadline=None)
def test_the_optimum_of_modes_and_layers_lies_between(
    heads: list[tuple[int, int]], limit: int
) -> None:
    nodes: list[Node] = [((0.0, saved / 10), (float(held), 0.0), (0, 1)) for saved, held in heads]
    found = solve(chain([*layers((0, 1)), *nodes], 1, float(limit)))
    best = min(
        sum(heads[i][0] / 10 for i in range(len(heads)) if not mode >> i & 1)
        + LAYERS * 1.2
        - 0.2 * min(LAYERS, limit - held)
        for mode in range(1 << len(heads))
        if (held := sum(heads[i][1] for i in range(len(heads)) if mode >> i & 1)) <= limit
    )
    assert found.bound_s <= best * (1 + 1e-9)
    assert best <= found.cost_s * (1 + 1e-9)
    assert found.cost_s - found.bound_s <= 1.1e-3 * found.cost_s
