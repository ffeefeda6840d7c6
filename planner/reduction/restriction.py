"""A problem with fewer candidates: for baselines, pins and questions of what if."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.problem import EdgeTable, NodeTable, Problem, tables_of

IndexArray: TypeAlias = NDArray[np.intp]


def restricted(problem: Problem, allowed: Sequence[IndexArray]) -> Problem:
    """The problem in which node i may only choose among `allowed[i]`; equal tables stay shared.

    Choices of the result are positions in `allowed`; `original_choice` leads back.
    """
    kept = [keep.tobytes() for keep in allowed]

    def node_table(node: int) -> NodeTable:
        old, keep = problem.node_tables[problem.node_table_of[node]], allowed[node]
        axes = None if old.axes is None else old.axes[keep]
        loads = None if old.loads is None else old.loads[:, keep]
        inherited = None if old.inherited is None else old.inherited[keep]
        memory = tuple(v[keep] for v in old.memory_bytes)
        return NodeTable(old.time_s[keep], memory, axes, loads, inherited)

    def edge_table(edge: int) -> EdgeTable:
        whole = problem.edge_tables[problem.edge_table_of[edge]]
        u, v = problem.edges[edge]
        part = np.ix_(allowed[u], allowed[v])
        loads = None if whole.loads is None else whole.loads[:, part[0], part[1]]
        return EdgeTable(whole.time_s[part], tuple(m[part] for m in whole.memory_bytes), loads)

    of_edges = zip(problem.edge_table_of, problem.edges, strict=True)
    nodes = tables_of(zip(problem.node_table_of, kept, strict=True), node_table)
    edges = tables_of(((table, kept[u], kept[v]) for table, (u, v) in of_edges), edge_table)
    limits = (
        replace(limit, amounts={n: own[allowed[n]] for n, own in limit.amounts.items()})
        for limit in problem.limits
    )
    return replace(problem.with_tables(nodes, edges), limits=tuple(limits))


def offered(problem: Problem, allowed: Mapping[int, IndexArray]) -> list[IndexArray]:
    """Candidates of every node: those allowed, or all of them where nothing is said."""
    return [allowed.get(node, np.arange(size)) for node, size in enumerate(problem.sizes)]


def original_choice(allowed: Sequence[IndexArray], choice: Sequence[int]) -> tuple[int, ...]:
    """The choice in the unrestricted problem."""
    return tuple(int(keep[c]) for keep, c in zip(allowed, choice, strict=True))
