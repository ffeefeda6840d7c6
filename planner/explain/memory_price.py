"""What a byte of memory is worth to a plan: the prices of the relaxation at the limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.explain.posed import Posed
from planner.problem import FloatArray, Problem
from planner.restriction import restricted
from planner.solvers.conditioning import ConditionedRelaxation
from planner.solvers.constrained import solve_without_limit
from planner.solvers.ledger import Ledger
from planner.solvers.memory_prices import PriceSearch
from planner.solvers.progress import Incumbent, Meter
from planner.solvers.relaxation import exact_relaxation
from planner.solvers.views import LARGEST_BUCKET


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPrices:
    """Seconds that a byte more would save, where the limit binds."""

    per_byte: FloatArray
    """At each time point, shape (T,); 0 where memory is left."""

    @property
    def per_byte_s(self) -> float:
        """For a byte more at all times: of a step, seconds per byte of the limit."""
        return float(self.per_byte.sum())

    def charge_s(self, problem: Problem, choice: Sequence[int], node: int) -> float:
        """What the memory of a node and of the copies at its edges costs at these prices."""
        running = np.concatenate(([0.0], np.cumsum(self.per_byte)))
        return math.fsum(
            (running[end] - running[start]) * nbytes
            for start, end, nbytes in held_at(problem, choice, node)
        )


def held_at(problem: Problem, choice: Sequence[int], node: int) -> list[tuple[int, int, float]]:
    """What a node and the edges at it hold: from when, until when, and bytes."""
    table = problem.node_tables[problem.node_table_of[node]]
    out = [
        (start, end, float(vector[choice[node]]))
        for vector, (start, end) in zip(
            table.memory_bytes, problem.node_intervals[node], strict=True
        )
    ]
    for index, (u, v) in enumerate(problem.edges):
        if node in {u, v}:
            matrices = problem.edge_tables[problem.edge_table_of[index]].memory_bytes
            out += [
                (start, end, float(matrix[choice[u], choice[v]]))
                for matrix, (start, end) in zip(
                    matrices, problem.edge_intervals[index], strict=True
                )
            ]
    return out


def memory_prices(posed: Posed) -> MemoryPrices:
    """The prices at the limit of a problem; zero where the fastest choice fits."""
    problem = posed.problem
    none = MemoryPrices(np.zeros(problem.time_points))
    if not math.isfinite(posed.limit_bytes) or posed.without_limit().answer().peak_bytes <= (
        posed.limit_bytes
    ):
        return none
    held = replace(restricted(problem, posed.allowed()), memory_limit_bytes=posed.limit_bytes)
    ledger, meter = Ledger(held), Meter(posed.budget)
    incumbent = Incumbent(ledger, np.full(held.time_points, posed.limit_bytes))
    relaxation = exact_relaxation(ledger, meter, 2 * LARGEST_BUCKET) or ConditionedRelaxation(
        ledger, meter, LARGEST_BUCKET
    )
    search = PriceSearch(relaxation, incumbent, meter)
    search.run(solve_without_limit(relaxation, incumbent))
    return MemoryPrices(np.array(search.prices, dtype=np.float64))
