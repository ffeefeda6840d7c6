"""The decision as numbers: candidates with times and memory, pairs with times, one limit.

A solver sees a :class:`Problem` and nothing else. Equal nodes share one table, and so do equal
edges, so that eighty equal layers are held once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
Interval: TypeAlias = tuple[int, int]

ROUNDING = 1e-12
"""Relative allowance for the rounding of a sum when a peak is held against the limit."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """What each candidate of a node costs; shared by all equal nodes."""

    time_s: FloatArray
    """Seconds per candidate, shape (C,), finite; a candidate to avoid has a large number."""
    memory_bytes: tuple[FloatArray, ...] = ()
    """Bytes per candidate, one (C,) vector for each live interval of the node."""
    axes: IntArray | None = None
    """A hint: what each candidate does with every axis of the machine, slowest axis first, shape
    (C, A). 0 is nothing, other numbers are only names; None where that is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class EdgeTable:
    """What each pair of candidates costs; shared by all equal edges."""

    time_s: FloatArray
    """Seconds per pair, shape (Cu, Cv), finite; a pair to avoid has a large number."""
    memory_bytes: tuple[FloatArray, ...] = ()
    """Bytes per pair, one (Cu, Cv) matrix for each live interval of the edge."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Choose one candidate per node: least total time, memory within the limit at all times."""

    node_tables: tuple[NodeTable, ...]
    """Distinct node tables."""
    edge_tables: tuple[EdgeTable, ...]
    """Distinct edge tables."""
    node_table_of: tuple[int, ...]
    """Table of each node, in program order."""
    node_intervals: tuple[tuple[Interval, ...], ...]
    """Per node the time points `[start, end)` of each vector in its table's `memory_bytes`."""
    edges: tuple[tuple[int, int], ...]
    """Pairs `(u, v)` with `u != v`, in any order; parallel edges add."""
    edge_table_of: tuple[int, ...]
    """Table of each edge, indexed `[choice of u, choice of v]`."""
    edge_intervals: tuple[tuple[Interval, ...], ...]
    """Per edge the time points `[start, end)` of each matrix in its table's `memory_bytes`."""
    time_points: int
    """Number of time points, e.g. 1 if only the end of the forward pass can bind."""
    memory_limit_bytes: float
    """Bytes that no time point may exceed; `math.inf` for no limit."""
    pinned: tuple[int, ...] = ()
    """A hint: nodes whose candidates the user restricted, ascending."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of candidates of each node."""
        counts = [table.time_s.shape[0] for table in self.node_tables]
        return tuple(counts[table] for table in self.node_table_of)

    def validate(self) -> None:
        """Raise `ValueError` that lists every violation, if there is any."""
        found = tuple(_violations(self))
        if found:
            raise ValueError("\n".join(("the problem is malformed:", *found)))

    def cost_s(self, choice: Sequence[int]) -> float:
        """Seconds of a choice: the judge of every solver.

        The sum is exactly rounded, hence the same for every order of the nodes.
        """
        nodes = (
            self.node_tables[table].time_s[candidate]
            for table, candidate in zip(self.node_table_of, choice, strict=True)
        )
        edges = (
            self.edge_tables[table].time_s[choice[u], choice[v]]
            for table, (u, v) in zip(self.edge_table_of, self.edges, strict=True)
        )
        return math.fsum((*nodes, *edges))

    def memory_profile(self, choice: Sequence[int]) -> FloatArray:
        """Bytes in use at each time point, shape (T,)."""
        held = list(_held(self, choice))
        starts = np.array([start for start, _, _ in held], dtype=np.intp)
        ends = np.array([end for _, end, _ in held], dtype=np.intp)
        nbytes = np.array([amount for _, _, amount in held], dtype=np.float64)
        return profile_bytes(starts, ends, nbytes, self.time_points)

    def peak_bytes(self, choice: Sequence[int]) -> float:
        """Largest number of bytes in use at any time point."""
        return float(self.memory_profile(choice).max(initial=0.0))

    def is_feasible(self, choice: Sequence[int]) -> bool:
        """Whether the memory fits at every time point."""
        return self.fits(self.peak_bytes(choice))

    def fits(self, peak_bytes: float) -> bool:
        """Whether a peak is within the limit, up to the rounding of the sum."""
        return peak_bytes <= self.memory_limit_bytes * (1.0 + ROUNDING)


def profile_bytes(
    starts: NDArray[np.intp], ends: NDArray[np.intp], nbytes: FloatArray, time_points: int
) -> FloatArray:
    """Bytes at each time point.

    Args:
        starts: shape (K,), first time point of each amount.
        ends: shape (K,), the time point at which it is gone.
        nbytes: shape (K,), the amounts.
        time_points: length of the profile.

    Returns:
        Shape (time_points,).
    """
    gained = np.bincount(starts, weights=nbytes, minlength=time_points + 1)
    lost = np.bincount(ends, weights=nbytes, minlength=time_points + 1)
    profile: FloatArray = np.cumsum(gained - lost, dtype=np.float64)[:time_points]
    return profile


def _held(problem: Problem, choice: Sequence[int]) -> Iterator[tuple[int, int, float]]:
    for node, (table, intervals) in enumerate(
        zip(problem.node_table_of, problem.node_intervals, strict=True)
    ):
        for (start, end), vector in zip(
            intervals, problem.node_tables[table].memory_bytes, strict=True
        ):
            yield start, end, float(vector[choice[node]])
    for (u, v), table, intervals in zip(
        problem.edges, problem.edge_table_of, problem.edge_intervals, strict=True
    ):
        for (start, end), matrix in zip(
            intervals, problem.edge_tables[table].memory_bytes, strict=True
        ):
            yield start, end, float(matrix[choice[u], choice[v]])


def _violations(problem: Problem) -> Iterator[str]:
    yield from _length_violations(problem)
    for number, node_table in enumerate(problem.node_tables):
        yield from _table_violations(f"node table {number}", node_table, dimensions=1)
        axes = node_table.axes
        if axes is not None and (axes.ndim != 2 or len(axes) != len(node_table.time_s)):
            yield f"node table {number}: axes has shape {axes.shape}; one row per candidate needed"
    for number, edge_table in enumerate(problem.edge_tables):
        yield from _table_violations(f"edge table {number}", edge_table, dimensions=2)
    yield from _node_violations(problem)
    yield from _edge_violations(problem)


def _length_violations(problem: Problem) -> Iterator[str]:
    nodes, edges = len(problem.node_table_of), len(problem.edges)
    if len(problem.node_intervals) != nodes:
        yield f"node_intervals has {len(problem.node_intervals)} entries for {nodes} nodes"
    if len(problem.edge_table_of) != edges:
        yield f"edge_table_of has {len(problem.edge_table_of)} entries for {edges} edges"
    if len(problem.edge_intervals) != edges:
        yield f"edge_intervals has {len(problem.edge_intervals)} entries for {edges} edges"
    if problem.time_points < 0:
        yield f"time_points is {problem.time_points}; it must be 0 or more"
    if not all(0 <= node < nodes for node in problem.pinned):
        yield f"pinned has {problem.pinned}; there are {nodes} nodes"
    if not problem.memory_limit_bytes >= 0:
        yield f"memory_limit_bytes is {problem.memory_limit_bytes}; it must be 0 or more"


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


def _interval_violations(
    where: str, intervals: tuple[Interval, ...], vectors: int, time_points: int
) -> Iterator[str]:
    if len(intervals) != vectors:
        yield f"{where}: {len(intervals)} intervals for {vectors} memory vectors of its table"
    for start, end in intervals:
        if not 0 <= start <= end <= time_points:
            yield f"{where}: interval [{start}, {end}) is not within 0 and {time_points}"


def _node_violations(problem: Problem) -> Iterator[str]:
    for node, (table, intervals) in enumerate(
        zip(problem.node_table_of, problem.node_intervals, strict=False)
    ):
        where = f"node {node}"
        if not 0 <= table < len(problem.node_tables):
            yield f"{where}: there is no node table {table}"
            continue
        vectors = len(problem.node_tables[table].memory_bytes)
        yield from _interval_violations(where, intervals, vectors, problem.time_points)


def _edge_violations(problem: Problem) -> Iterator[str]:
    for edge, ((u, v), table, intervals) in enumerate(
        zip(problem.edges, problem.edge_table_of, problem.edge_intervals, strict=False)
    ):
        where = f"edge {edge} ({u}, {v})"
        if not 0 <= table < len(problem.edge_tables):
            yield f"{where}: there is no edge table {table}"
            continue
        vectors = len(problem.edge_tables[table].memory_bytes)
        yield from _interval_violations(where, intervals, vectors, problem.time_points)
        yield from _end_violations(problem, where, (u, v), problem.edge_tables[table])


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
