"""Improvement of an answer that fits: free some layers, solve them within what is left.

One segment of the program, or two that can trade memory, are released; the rest keeps its choice.
What remains is a problem like the whole one, only small, and is solved in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.problem import FloatArray, Interval, NodeTable, Problem, tables_of
from planner.solvers.contract import Incumbent, Meter
from planner.solvers.ledger import Ledger
from planner.solvers.memory_prices import solve_within_limit, solve_without_limit
from planner.solvers.relaxation import exact_relaxation

LARGEST_BUCKET = 1 << 22
"""A neighbourhood with a larger bucket is passed over."""
SMALLEST_SEGMENT = 12
"""Nodes of the shortest segment."""
SEGMENTS = 10
"""Parts into which the program is cut, at least."""
PAIRS = 12
"""Pairs of segments that are tried, per unit of effort."""
ENOUGH = 1e-3
"""Relative gap at which the search stops at effort 1; effort e stops at 1/e of it."""


def improve(incumbent: Incumbent, meter: Meter, seed: int, at_effort_1: float = ENOUGH) -> None:
    """Replace the answer of the incumbent as long as that pays.

    Args:
        incumbent: what is known; receives what is found.
        meter: counts the work.
        seed: of the random pairs of segments.
        at_effort_1: relative gap at which to stop at effort 1; at effort e it is 1/e of it.
    """
    enough = at_effort_1 / meter.effort
    for nodes in _neighbourhoods(len(incumbent.problem.node_table_of), meter.effort, seed):
        if incumbent.choice is None or incumbent.gap <= enough or meter.is_spent:
            return
        better = _best_within(incumbent, meter, nodes)
        if better is not None:
            incumbent.offer(better, f"neighbourhood of {len(nodes)} nodes")


def _neighbourhoods(nodes: int, effort: int, seed: int) -> Iterator[Sequence[int]]:
    """Overlapping segments in program order, then random pairs of them."""
    length = max(SMALLEST_SEGMENT, nodes // SEGMENTS)
    starts = range(0, max(1, nodes - length // 2), max(1, length // 2))
    segments = [range(start, min(start + length, nodes)) for start in starts]
    rng = np.random.default_rng(seed)
    for turn in range(effort):
        if turn == 0:
            yield from segments
        for _ in range(PAIRS):
            first, second = rng.integers(0, len(segments), size=2)
            yield sorted({*segments[first], *segments[second]})


@dataclass(slots=True, eq=False)
class _Neighbourhood:
    """A neighbourhood as a problem of its own, while it is put together."""

    problem: Problem
    choice: Sequence[int]
    nodes: Sequence[int]
    place: dict[int, int]
    node_tables: list[NodeTable]
    intervals: list[tuple[Interval, ...]]
    edges: list[int]

    def add_outer_edge(self, node: int, edge: int) -> None:
        """Charge an edge to the outside to its end in the neighbourhood."""
        u, v = self.problem.edges[edge]
        table = self.problem.edge_tables[self.problem.edge_table_of[edge]]
        axis, other = (1, self.choice[v]) if u == node else (0, self.choice[u])
        own = self.node_tables[self.place[node]]
        memory = [np.asarray(matrix.take(other, axis=axis)) for matrix in table.memory_bytes]
        self.node_tables[self.place[node]] = NodeTable(
            own.time_s + table.time_s.take(other, axis=axis), (*own.memory_bytes, *memory)
        )
        self.intervals[self.place[node]] += self.problem.edge_intervals[edge]

    def freeze(self) -> Problem:
        whole = self.problem
        tables = sorted({whole.edge_table_of[edge] for edge in self.edges})
        number = {table: new for new, table in enumerate(tables)}
        ends = [whole.edges[edge] for edge in self.edges]
        node_tables, node_table_of = tables_of(
            map(id, self.node_tables), self.node_tables.__getitem__
        )
        return Problem(
            node_tables=node_tables,
            edge_tables=tuple(whole.edge_tables[table] for table in tables),
            node_table_of=node_table_of,
            node_intervals=tuple(self.intervals),
            edges=tuple((self.place[u], self.place[v]) for u, v in ends),
            edge_table_of=tuple(number[whole.edge_table_of[edge]] for edge in self.edges),
            edge_intervals=tuple(whole.edge_intervals[edge] for edge in self.edges),
            time_points=whole.time_points,
            memory_limit_bytes=whole.memory_limit_bytes,
        )


def _rest(
    problem: Problem,
    choice: Sequence[int],
    nodes: Sequence[int],
) -> Problem:
    place = {node: new for new, node in enumerate(nodes)}
    tables = [problem.node_tables[problem.node_table_of[node]] for node in nodes]
    intervals = [problem.node_intervals[node] for node in nodes]
    rest = _Neighbourhood(problem, choice, nodes, place, tables, intervals, [])
    for node in nodes:
        for edge, other in problem.edges_at[node]:
            if other not in place:
                rest.add_outer_edge(node, edge)
            elif problem.edges[edge][0] == node:
                rest.edges.append(edge)
    return rest.freeze()


def _best_within(
    incumbent: Incumbent,
    meter: Meter,
    nodes: Sequence[int],
) -> tuple[int, ...] | None:
    """The whole choice with a better neighbourhood, if one was found."""
    whole = incumbent.choice or ()
    ledger = Ledger(_rest(incumbent.problem, whole, nodes))
    present = [whole[node] for node in nodes]
    limits: FloatArray = incumbent.limits - (
        incumbent.ledger.profile(whole) - ledger.profile(present)
    )
    inner = Incumbent(ledger, limits)
    inner.offer(present, "present")
    before = inner.cost_s
    relaxation = exact_relaxation(ledger, meter, LARGEST_BUCKET)
    if relaxation is None:
        return None
    profile = solve_without_limit(relaxation, inner)
    if inner.overfull(profile) is not None:
        solve_within_limit(relaxation, inner, meter, profile)
    if inner.choice is None or not inner.cost_s < before:
        return None
    changed = dict(zip(nodes, inner.choice, strict=True))
    return tuple(changed.get(node, candidate) for node, candidate in enumerate(whole))
