"""What is wrong with a problem, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.problem import EdgeTable, Interval, NodeTable, Problem


def validate(problem: Problem) -> None:
    """Raise `ValueError` that lists every fault, if there is any."""
    found = tuple(_faults(problem))
    if found:
        raise ValueError("\n".join(("the problem is malformed:", *found)))


def _faults(problem: Problem) -> Iterator[str]:
    yield from _length_violations(problem)
    for number, node_table in enumerate(problem.node_tables):
        yield from _table_violations(f"node table {number}", node_table, dimensions=1)
        axes = node_table.axes
        if axes is not None and (axes.ndim != 2 or len(axes) != len(node_table.time_s)):
            yield f"node table {number}: axes has shape {axes.shape}; one row per candidate needed"
    for number, edge_table in enumerate(problem.edge_tables):
        yield from _table_violations(f"edge table {number}", edge_table, dimensions=2)
    of_nodes = zip(problem.node_table_of, problem.node_intervals, strict=False)
    for node, (table, intervals) in enumerate(of_nodes):
        yield from _owner_violations(problem, f"node {node}", "node", table, intervals)
    of_edges = zip(problem.edges, problem.edge_table_of, problem.edge_intervals, strict=False)
    for edge, (ends, table, intervals) in enumerate(of_edges):
        where = f"edge {edge} {ends}"
        yield from _owner_violations(problem, where, "edge", table, intervals)
        if 0 <= table < len(problem.edge_tables):
            yield from _end_violations(problem, where, ends, problem.edge_tables[table])


def _length_violations(problem: Problem) -> Iterator[str]:
    nodes, edges = len(problem.node_table_of), len(problem.edges)
    for name, entries, wanted in (
        ("node_intervals", len(problem.node_intervals), f"{nodes} nodes"),
        ("edge_table_of", len(problem.edge_table_of), f"{edges} edges"),
        ("edge_intervals", len(problem.edge_intervals), f"{edges} edges"),
    ):
        if not wanted.startswith(f"{entries} "):
            yield f"{name} has {entries} entries for {wanted}"
    if problem.time_points < 0:
        yield f"time_points is {problem.time_points}; it must be 0 or more"
    if not all(0 <= node < nodes for node in problem.pinned):
        yield f"pinned has {problem.pinned}; there are {nodes} nodes"
    sizes = dict(enumerate(problem.sizes)) if problem.limits else {}
    for limit in problem.limits:
        if any(own.shape != (sizes.get(node),) for node, own in limit.amounts.items()):
            yield "a limit of the choice has other candidates than its nodes"
    yield from _overlap_faults(problem)
    if not problem.memory_limit_bytes >= 0:
        yield f"memory_limit_bytes is {problem.memory_limit_bytes}; it must be 0 or more"


def _overlap_faults(problem: Problem) -> Iterator[str]:
    """Nodes and layers that are not told, and loads of other columns."""
    overlap = problem.overlap
    if overlap is None:
        return
    if len(overlap.layer_of) != len(problem.node_table_of):
        yield f"overlap tells the layer of {len(overlap.layer_of)} nodes"
    if any(not 0 <= layer < overlap.count for layer in overlap.layer_of):
        yield f"overlap has {overlap.count} layers, and a node is in none of them"
    if len(overlap.piece_of) != overlap.count:
        yield f"overlap tells the piece of {len(overlap.piece_of)} of {overlap.count} layers"
    every = (*(t.loads for t in problem.node_tables), *(t.loads for t in problem.edge_tables))
    columns = {len(loads) for loads in every if loads is not None}
    if columns - {overlap.form.loads.count}:
        yield f"loads have {sorted(columns)} columns; {overlap.form.loads.count} needed"


def _table_violations(where: str, table: NodeTable | EdgeTable, dimensions: int) -> Iterator[str]:
    shape = table.time_s.shape
    if len(shape) != dimensions or 0 in shape:
        yield f"{where}: time_s has shape {shape}; {dimensions} dimension(s), none empty, needed"
    for name, array in (
        ("time_s", table.time_s),
        *((f"memory_bytes[{i}]", array) for i, array in enumerate(table.memory_bytes)),
    ):
        if array.shape != shape:
            yield f"{where}: {name} has shape {array.shape}, time_s has {shape}"
        if array.dtype != np.float64:
            yield f"{where}: {name} is {array.dtype}; float64 needed"
        elif not np.isfinite(array).all():
            yield f"{where}: {name} has entries that are not finite; use a large number instead"
    if table.loads is not None and table.loads.shape[1:] != shape:
        yield f"{where}: loads has shape {table.loads.shape}, time_s has {shape}"


def _owner_violations(
    problem: Problem, where: str, kind: str, table: int, intervals: tuple[Interval, ...]
) -> Iterator[str]:
    """What is wrong with the table of a node or an edge, and with its live intervals."""
    tables = problem.node_tables if kind == "node" else problem.edge_tables
    if not 0 <= table < len(tables):
        yield f"{where}: there is no {kind} table {table}"
        return
    vectors, time_points = len(tables[table].memory_bytes), problem.time_points
    if len(intervals) != vectors:
        yield f"{where}: {len(intervals)} intervals for {vectors} memory vectors of its table"
    for start, end in intervals:
        if not 0 <= start <= end <= time_points:
            yield f"{where}: interval [{start}, {end}) is not within 0 and {time_points}"


def _end_violations(
    problem: Problem, where: str, ends: tuple[int, int], table: EdgeTable
) -> Iterator[str]:
    nodes = len(problem.node_table_of)
    if ends[0] == ends[1] or not all(0 <= end < nodes for end in ends):
        yield f"{where}: the ends must be two different nodes below {nodes}"
        return
    tables = [problem.node_table_of[end] for end in ends]
    if not all(0 <= number < len(problem.node_tables) for number in tables):
        return
    needed = tuple(problem.node_tables[number].time_s.shape[0] for number in tables)
    if table.time_s.shape != needed:
        yield f"{where}: its matrix is {table.time_s.shape}, its ends have {needed} candidates"
