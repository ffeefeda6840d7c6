"""A problem with fewer candidates: for baselines, pins and questions of what if."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.problem import EdgeTable, NodeTable, Problem

IndexArray: TypeAlias = NDArray[np.intp]


def restricted(problem: Problem, allowed: Sequence[IndexArray]) -> Problem:
    """The problem in which node i may only choose among `allowed[i]`; equal tables stay shared.

    Choices of the result are positions in `allowed`; `original_choice` leads back.
    """
    nodes: dict[tuple[int, bytes], int] = {}
    node_tables: list[NodeTable] = []
    node_table_of: list[int] = []
    for table, keep in zip(problem.node_table_of, allowed, strict=True):
        key = (table, keep.tobytes())
        if key not in nodes:
            nodes[key] = len(node_tables)
            old = problem.node_tables[table]
            memory = tuple(v[keep] for v in old.memory_bytes)
            axes = None if old.axes is None else old.axes[keep]
            node_tables.append(NodeTable(old.time_s[keep], memory, axes))
        node_table_of.append(nodes[key])
    edges: dict[tuple[int, bytes, bytes], int] = {}
    edge_tables: list[EdgeTable] = []
    edge_table_of: list[int] = []
    for table, (u, v) in zip(problem.edge_table_of, problem.edges, strict=True):
        rows, columns = allowed[u], allowed[v]
        cell = (table, rows.tobytes(), columns.tobytes())
        if cell not in edges:
            edges[cell] = len(edge_tables)
            whole, part = problem.edge_tables[table], np.ix_(rows, columns)
            edge_tables.append(
                EdgeTable(whole.time_s[part], tuple(m[part] for m in whole.memory_bytes))
            )
        edge_table_of.append(edges[cell])
    return replace(
        problem,
        node_tables=tuple(node_tables),
        node_table_of=tuple(node_table_of),
        edge_tables=tuple(edge_tables),
        edge_table_of=tuple(edge_table_of),
    )


def original_choice(allowed: Sequence[IndexArray], choice: Sequence[int]) -> tuple[int, ...]:
    """The choice in the unrestricted problem."""
    return tuple(int(keep[c]) for keep, c in zip(allowed, choice, strict=True))
