"""Times of the solvers on a synthetic model of equal layers, with and without a memory limit.

Run `python -m benchmarks.solver_scaling [layers ...]` in the root of the repository.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
import time
from collections.abc import Sequence

import numpy as np

from planner.problem import EdgeTable, NodeTable, Problem
from planner.solvers import Budget, Solution, solver_by_name
from planner.solvers.elimination import compile_program, run_program
from planner.solvers.elimination_order import make_plan
from planner.solvers.ledger import Ledger, Prices

NODES_PER_LAYER = 94
"""As in a decoder block with its parameters and shared tensors."""
CANDIDATES = (25, 30, 36, 40, 50, 64, 100)
SHARES = (0.9, 0.6, 0.3, 0.1)
"""Memory limits, as shares of the peak of the fastest choice."""


def layered_problem(layers: int, seed: int = 0) -> Problem:
    """Layers with a spine, parameters that hang on it, and short skips."""
    rng = np.random.default_rng(seed)
    sizes = [int(size) for size in rng.choice(CANDIDATES, size=NODES_PER_LAYER)]
    node_tables = tuple(
        NodeTable(1e-4 * rng.random(c), (1e8 * rng.random(c),) if i % 2 == 0 else ())
        for i, c in enumerate(sizes)
    )
    local = _edges_of_a_layer()
    spine_end = max(i for i in range(NODES_PER_LAYER) if i % 3 != 2)
    pairs = [*local, (spine_end, 0)]
    edge_tables = tuple(EdgeTable(1e-4 * rng.random((sizes[u], sizes[v]))) for u, v in pairs)
    edges: list[tuple[int, int]] = []
    edge_table_of: list[int] = []
    for start in range(0, layers * NODES_PER_LAYER, NODES_PER_LAYER):
        edges.extend((start + u, start + v) for u, v in local)
        edge_table_of.extend(range(len(local)))
        if start:
            edges.append((start - NODES_PER_LAYER + spine_end, start))
            edge_table_of.append(len(local))
    intervals = tuple(((0, 1),) * len(table.memory_bytes) for table in node_tables)
    return Problem(
        node_tables=node_tables,
        edge_tables=edge_tables,
        node_table_of=tuple(range(NODES_PER_LAYER)) * layers,
        node_intervals=intervals * layers,
        edges=tuple(edges),
        edge_table_of=tuple(edge_table_of),
        edge_intervals=((),) * len(edges),
        time_points=1,
        memory_limit_bytes=math.inf,
    )


def _edges_of_a_layer() -> list[tuple[int, int]]:
    spine = [i for i in range(NODES_PER_LAYER) if i % 3 != 2]
    middle = len(spine) // 2
    return [
        *itertools.pairwise(spine),
        *((i, i - 1) for i in range(NODES_PER_LAYER) if i % 3 == 2),
        (spine[0], spine[middle]),
        (spine[middle], spine[-1]),
        *((spine[k], spine[k + 4]) for k in range(3, len(spine) - 12, 10)),
    ]


def measure_elimination(problem: Problem) -> str:
    """Seconds of the order, once, and of a pass under a price, again and again."""
    started = time.perf_counter()
    plan = make_plan(problem.sizes, problem.edges)
    planned = time.perf_counter() - started
    ledger = Ledger(problem)
    seconds = []
    operations = 0
    for price in (1e-13, 2e-13, 3e-13):
        started = time.perf_counter()
        numbers = ledger.numbers(Prices(np.array([price])))
        program = compile_program(plan, numbers.vector_of, numbers.matrix_of)
        run_program(program, numbers)
        seconds.append(time.perf_counter() - started)
        operations = len(program.operations)
    return (
        f"  order {planned:.3f} s; pass {min(seconds):.3f} s; {operations} distinct eliminations "
        f"of {len(plan.buckets)}; largest table 2^{math.log2(plan.largest):.1f}"
    )


def timed(problem: Problem) -> tuple[Solution, float]:
    """Solve with the workhorse; the solution and the seconds it took."""
    started = time.perf_counter()
    solution = solver_by_name("dynamic_programming").solve(problem, Budget())
    return solution, time.perf_counter() - started


def report(layers: int) -> list[str]:
    """Lines about one depth."""
    problem = layered_problem(layers)
    lines = [f"{layers} layers: {len(problem.node_table_of)} nodes, {len(problem.edges)} edges"]
    lines.append(measure_elimination(problem))
    free, seconds = timed(problem)
    lines.append(f"  no limit: {seconds:.2f} s, cost {free.cost_s:.6f} s, {free.proof}")
    for share in SHARES:
        limit = share * free.peak_bytes
        found, seconds = timed(dataclasses.replace(problem, memory_limit_bytes=limit))
        lines.append(
            f"  limit {share:.0%} of its peak: {seconds:.2f} s, cost {found.cost_s:.6f} s, "
            f"gap {found.gap:.4%}, {found.proof}"
        )
    return lines


def main(arguments: Sequence[str]) -> None:
    """Print a report for each number of layers."""
    for layers in [int(argument) for argument in arguments] or [2, 20, 80]:
        sys.stdout.write("\n".join(report(layers)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
