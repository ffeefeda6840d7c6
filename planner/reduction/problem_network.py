"""A problem as a network in flat arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from planner.problem import Interval, Problem
from planner.reduction.network import FloatArray, IntArray, Network, offsets


def network_of(problem: Problem) -> Network:
    """The problem as a network, in seconds and bytes, no two edges between the same nodes.

    The candidates of the smaller node of an edge are the rows of its matrices; equal edges share
    one.
    """
    node_times = [problem.node_tables[t].time_s for t in problem.node_table_of]
    edges = _parallel_tables(problem)
    starts, edge_cost = _matrices(problem, list(edges.values()))
    limited = math.isfinite(problem.memory_limit_bytes)
    spans = list(_spans(problem)) if limited else []
    pairs = _Pairs(problem, list(edges)) if limited else None
    net = Network(
        first=offsets([len(times) for times in node_times]),
        cost=_joined(node_times),
        edges=np.array(list(edges), dtype=np.int64).reshape(-1, 2),
        edge_first=starts,
        edge_cost=edge_cost,
        span_node=np.array([node for node, _, _ in spans], dtype=np.int64),
        span_time=np.array([time for _, time, _ in spans], dtype=np.int64).reshape(-1, 2),
        span_first=offsets([len(usage) for _, _, usage in spans]),
        usage=_joined([usage for _, _, usage in spans]),
        base=np.zeros(problem.time_points if limited else 0),
        limit=problem.memory_limit_bytes,
    )
    return net if pairs is None else pairs.added_to(net)


def _parallel_tables(problem: Problem) -> dict[tuple[int, int], tuple[tuple[int, bool], ...]]:
    """For each pair of nodes that has edges, the smaller first, their tables, and whether each of
    them is to be turned.
    """
    found: dict[tuple[int, int], tuple[tuple[int, bool], ...]] = {}
    for table, (u, v) in zip(problem.edge_table_of, problem.edges, strict=True):
        key = (min(u, v), max(u, v))
        found[key] = (*found.get(key, ()), (table, u > v))
    return found


def _matrices(
    problem: Problem, sums: Sequence[tuple[tuple[int, bool], ...]]
) -> tuple[IntArray, FloatArray]:
    """Where the matrix of each sum of tables starts, the end of all, and the matrices."""
    known: dict[tuple[tuple[int, bool], ...], int] = {}
    parts: list[FloatArray] = []
    length = 0
    for tables in sums:
        if tables not in known:
            known[tables] = length
            times = [(problem.edge_tables[table].time_s, turned) for table, turned in tables]
            parts.append(np.ravel(np.sum([t.T if turned else t for t, turned in times], axis=0)))
            length += parts[-1].size
    starts = np.array([*(known[tables] for tables in sums), length], dtype=np.int64)
    return starts, _joined(parts)


def _spans(problem: Problem) -> Iterator[tuple[int, Interval, FloatArray]]:
    """Node, time points and usage of everything that nodes hold."""
    for node, (table, intervals) in enumerate(
        zip(problem.node_table_of, problem.node_intervals, strict=True)
    ):
        for interval, usage in zip(intervals, problem.node_tables[table].memory_bytes, strict=True):
            if interval[0] < interval[1] and usage.any():
                yield node, interval, usage


class _Pairs:
    """What pairs of candidates hold; equal matrices are kept once."""

    def __init__(self, problem: Problem, edges: list[tuple[int, int]]) -> None:
        number = {pair: place for place, pair in enumerate(edges)}
        self.problem = problem
        self.known: dict[tuple[int, int, bool], int] = {}
        self.matrices: list[FloatArray] = []
        self.length = 0
        self.rows: list[tuple[int, int, int, int]] = []
        for table, (u, v), intervals in zip(
            problem.edge_table_of, problem.edges, problem.edge_intervals, strict=True
        ):
            for vector, (start, end) in enumerate(intervals):
                if start < end and problem.edge_tables[table].memory_bytes[vector].any():
                    place = self._place(table, vector, turned=u > v)
                    self.rows.append((number[min(u, v), max(u, v)], start, end, place))

    def _place(self, table: int, vector: int, *, turned: bool) -> int:
        key = (table, vector, turned)
        if key not in self.known:
            matrix = self.problem.edge_tables[table].memory_bytes[vector]
            self.known[key] = self.length
            self.matrices.append(np.ravel(matrix.T if turned else matrix))
            self.length += matrix.size
        return self.known[key]

    def added_to(self, net: Network) -> Network:
        rows = np.array(self.rows, dtype=np.int64).reshape(-1, 4)
        return replace(
            net,
            pair_edge=rows[:, 0].copy(),
            pair_time=rows[:, 1:3].copy(),
            pair_first=rows[:, 3].copy(),
            pair_usage=_joined(self.matrices),
        )


def _joined(parts: list[FloatArray]) -> FloatArray:
    return np.concatenate(parts) if parts else np.zeros(0)
