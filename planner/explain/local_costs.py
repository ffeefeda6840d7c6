"""Costs of single nodes and edges of a problem under a choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from planner.problem import Problem


def edge_s(problem: Problem, index: int, choice: Sequence[int]) -> float:
    """Seconds of an edge under a choice."""
    first, second = problem.edges[index]
    table = problem.edge_tables[problem.edge_table_of[index]]
    return float(table.time_s[choice[first], choice[second]])


def node_s(problem: Problem, index: int, choice: Sequence[int]) -> float:
    """Seconds of a node's own work under a choice."""
    return float(problem.node_tables[problem.node_table_of[index]].time_s[choice[index]])


def local_s(problem: Problem, choice: Sequence[int], node: int, candidate: int) -> float:
    """Seconds of a candidate of a node and of the edges at it, everything else as chosen."""
    other = list(choice)
    other[node] = candidate
    edges = (edge_s(problem, index, other) for index in edges_at(problem)[node])
    return math.fsum((node_s(problem, node, other), *edges))


@lru_cache(maxsize=4)
def edges_at(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """The edges of every node, in ascending order."""
    out: list[list[int]] = [[] for _ in problem.sizes]
    for index, ends in enumerate(problem.edges):
        for node in sorted(set(ends)):
            out[node].append(index)
    return tuple(map(tuple, out))
