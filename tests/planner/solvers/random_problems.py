"""Random problems, small enough to enumerate, and one deep one."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from hypothesis import strategies as st

from planner.problem import EdgeTable, NodeTable, Problem

MAX_NODES = 8


@st.composite
def problems(draw: st.DrawFn, *, limited: bool = False) -> Problem:
    """Chains, trees and graphs with shared tables, parallel edges and several live intervals."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = draw(st.integers(1, MAX_NODES))
    kind = draw(st.sampled_from(["chain", "tree", "graph"]))
    time_points = draw(st.integers(1, 4))
    problem = random_problem(rng, nodes, kind, time_points)
    if not limited:
        return problem
    share = draw(st.floats(0.3, 1.0))
    return dataclasses.replace(
        problem, memory_limit_bytes=math.floor(share * _largest(problem)) * 1.0
    )


def random_problem(rng: np.random.Generator, nodes: int, kind: str, time_points: int) -> Problem:
    node_tables = tuple(_node_table(rng, int(c)) for c in rng.integers(1, 5, size=3))
    node_table_of = tuple(int(i) for i in rng.integers(0, 3, size=nodes))
    edges = tuple(_edges(rng, nodes, kind))
    edge_tables: list[EdgeTable] = []
    known: dict[tuple[int, int], int] = {}
    edge_table_of = []
    for u, v in edges:
        key = (node_table_of[u], node_table_of[v])
        if key not in known or rng.random() < 0.3:
            shape = tuple(node_tables[i].time_s.shape[0] for i in key)
            known[key] = len(edge_tables)
            edge_tables.append(_edge_table(rng, shape))
        edge_table_of.append(known[key])
    return Problem(
        node_tables=node_tables,
        edge_tables=tuple(edge_tables),
        node_table_of=node_table_of,
        node_intervals=tuple(
            _intervals(rng, len(node_tables[i].memory_bytes), time_points) for i in node_table_of
        ),
        edges=edges,
        edge_table_of=tuple(edge_table_of),
        edge_intervals=tuple(
            _intervals(rng, len(edge_tables[i].memory_bytes), time_points) for i in edge_table_of
        ),
        time_points=time_points,
        memory_limit_bytes=math.inf,
    )


def deep_problem(layers: int, width: int = 12, limit: float = math.inf, seed: int = 0) -> Problem:
    """Equal layers of a chain with skips; one time point."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(30, 51, size=width)
    node_tables = tuple(
        NodeTable(rng.random(int(c)), (np.floor(1e6 * rng.random(int(c))),)) for c in sizes
    )
    local = [(i, i + 1) for i in range(width - 1)] + [(0, width // 2), (width // 2, width - 1)]
    pairs = [*local, (width - 1, 0)]
    edge_tables = tuple(EdgeTable(rng.random((int(sizes[u]), int(sizes[v])))) for u, v in pairs)
    edges, edge_table_of = [], []
    for layer in range(layers):
        start = layer * width
        for table, (u, v) in enumerate(local):
            edges.append((start + u, start + v))
            edge_table_of.append(table)
        if layer:
            edges.append((start - 1, start))
            edge_table_of.append(len(local))
    return Problem(
        node_tables,
        edge_tables,
        tuple(range(width)) * layers,
        (((0, 1),),) * (width * layers),
        tuple(edges),
        tuple(edge_table_of),
        ((),) * len(edges),
        1,
        limit,
    )


def permuted(problem: Problem, order: list[int]) -> Problem:
    """The same problem with its nodes in another order."""
    place = {old: new for new, old in enumerate(order)}
    return dataclasses.replace(
        problem,
        node_table_of=tuple(problem.node_table_of[old] for old in order),
        node_intervals=tuple(problem.node_intervals[old] for old in order),
        edges=tuple((place[u], place[v]) for u, v in problem.edges),
    )


def _node_table(rng: np.random.Generator, candidates: int) -> NodeTable:
    vectors = tuple(
        rng.integers(0, 100, size=candidates).astype(np.float64)
        for _ in range(int(rng.integers(0, 3)))
    )
    return NodeTable(rng.random(candidates), vectors)


def _edge_table(rng: np.random.Generator, shape: tuple[int, ...]) -> EdgeTable:
    vectors = tuple(
        rng.integers(0, 50, size=shape).astype(np.float64) for _ in range(int(rng.integers(0, 2)))
    )
    return EdgeTable(rng.random(shape), vectors)


def _intervals(
    rng: np.random.Generator, count: int, time_points: int
) -> tuple[tuple[int, int], ...]:
    ends = np.sort(rng.integers(0, time_points + 1, size=(count, 2)), axis=1)
    return tuple((int(start), int(end)) for start, end in ends)


def _edges(rng: np.random.Generator, nodes: int, kind: str) -> list[tuple[int, int]]:
    if nodes == 1:
        return []
    if kind == "chain":
        pairs = [(i, i + 1) for i in range(nodes - 1)]
    elif kind == "tree":
        pairs = [(int(rng.integers(0, i)), i) for i in range(1, nodes)]
    else:
        count = int(rng.integers(0, 2 * nodes))
        pairs = [tuple(rng.choice(nodes, size=2, replace=False).tolist()) for _ in range(count)]
    again = [pair for pair in pairs if rng.random() < 0.2]
    return [(u, v) if rng.random() < 0.5 else (v, u) for u, v in [*pairs, *again]]


def _largest(problem: Problem) -> float:
    """A number of bytes that some choices exceed and others do not, mostly."""
    if not problem.node_table_of:
        return 0.0
    rng = np.random.default_rng(0)
    peaks = [problem.peak_bytes([int(rng.integers(0, c)) for c in problem.sizes]) for _ in range(5)]
    return max(peaks)


def with_hub(problem: Problem, candidates: int, seed: int = 0) -> Problem:
    """A last node that is a neighbour of every fifth node, with equal tables in equal layers."""
    rng = np.random.default_rng(seed)
    hub = len(problem.node_table_of)
    users = range(0, hub, 5)
    tables = list(problem.edge_tables)
    number: dict[int, int] = {}
    edge_table_of = list(problem.edge_table_of)
    for user in users:
        kind = problem.node_table_of[user]
        if kind not in number:
            number[kind] = len(tables)
            tables.append(EdgeTable(rng.random((candidates, problem.sizes[user]))))
        edge_table_of.append(number[kind])
    return dataclasses.replace(
        problem,
        node_tables=(*problem.node_tables, NodeTable(rng.random(candidates))),
        node_table_of=(*problem.node_table_of, len(problem.node_tables)),
        node_intervals=(*problem.node_intervals, ()),
        edges=(*problem.edges, *((hub, user) for user in users)),
        edge_tables=tuple(tables),
        edge_table_of=tuple(edge_table_of),
        edge_intervals=((),) * len(edge_table_of),
    )
