"""A problem prepared for solvers: the memory of a choice in one gather, cost tables under prices.

Most passes under prices change few tables, so that those of the last pass are kept (`Reuse`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.problem import EdgeTable, FloatArray, NodeTable, Problem, profile_bytes

T = TypeVar("T")
IndexArray: TypeAlias = NDArray[np.intp]


class Reuse:
    """Values by key, of this pass and of the one before it.

    A value under the identity of an array must hold that array: so that no other gets its identity.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, Any] = {}
        self._now: dict[Hashable, Any] = {}

    def begin(self) -> None:
        """Begin a pass; what the last one did not use is forgotten."""
        self._last, self._now = self._now, {}

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of this key, made if neither pass has made it."""
        found: T | None = self._now.get(key)
        if found is None:
            found = self._last.get(key)
            self._now[key] = found = make() if found is None else found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Vectors of nodes and matrices of edges, each distinct one once."""

    vectors: Sequence[FloatArray]
    """Distinct node vectors."""
    matrices: Sequence[FloatArray]
    """Distinct edge matrices, indexed [first end, second end]."""
    vector_of: Sequence[int]
    """Vector of each node."""
    matrix_of: Sequence[int]
    """Matrix of each edge."""


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Seconds charged per byte in use at each time point."""

    per_byte: FloatArray
    """Shape (T,)."""
    later_per_byte: FloatArray | None = None
    """Shape (T,): what nodes from `split` on pay instead."""
    split: int = 0
    """Nodes before it pay `per_byte`."""
    time_weight: float = 1.0
    """What a second of time counts; 0 asks for the least memory."""


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Live intervals of all nodes or of all edges, one after the other."""

    owners: IndexArray
    """Node or edge."""
    tables: IndexArray
    """Table of the owner."""
    vectors: IndexArray
    """Which of the table's `memory_bytes`."""
    starts: IndexArray
    ends: IndexArray
    offsets: IndexArray
    """Where the vector begins in the flat bytes."""


class Ledger:
    """Answers what a choice holds and what the tables are under given prices."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._node_bytes, node_offsets = _flat(problem.node_tables)
        self._edge_bytes, edge_offsets = _flat(problem.edge_tables)
        self._nodes = _entries(problem.node_table_of, problem.node_intervals, node_offsets)
        self._edges = _entries(problem.edge_table_of, problem.edge_intervals, edge_offsets)
        ends = np.array(problem.edges, dtype=np.intp).reshape(-1, 2)
        self._first, self._second = ends[self._edges.owners].T
        widths = np.array([table.time_s.shape[1] for table in problem.edge_tables], dtype=np.intp)
        self._widths = widths[self._edges.tables]
        self._starts = np.concatenate((self._nodes.starts, self._edges.starts))
        self._ends = np.concatenate((self._nodes.ends, self._edges.ends))
        self._priced_nodes, self._priced_edges = Reuse(), Reuse()

    def profile(self, choice: Sequence[int]) -> FloatArray:
        """The same as `Problem.memory_profile`."""
        chosen = np.asarray(choice, dtype=np.intp)
        nodes = self._node_bytes[self._nodes.offsets + chosen[self._nodes.owners]]
        pairs = chosen[self._first] * self._widths + chosen[self._second]
        edges = self._edge_bytes[self._edges.offsets + pairs]
        nbytes = np.concatenate((nodes, edges))
        return profile_bytes(self._starts, self._ends, nbytes, self.problem.time_points)

    def numbers(self, prices: Prices | None = None) -> Numbers:
        """Vectors and matrices under prices, each distinct one once."""
        problem = self.problem
        if prices is None:
            return Numbers(
                [table.time_s for table in problem.node_tables],
                [table.time_s for table in problem.edge_tables],
                problem.node_table_of,
                problem.edge_table_of,
            )
        earlier_end = np.minimum(self._first, self._second)
        node_weights = _weights(self._nodes, prices, self._nodes.owners >= prices.split)
        edge_weights = _weights(self._edges, prices, earlier_end >= prices.split)
        weight, reuse = prices.time_weight, (self._priced_nodes, self._priced_edges)
        vectors, vector_of = _priced(
            problem.node_tables, problem.node_table_of, self._nodes, node_weights, weight, reuse[0]
        )
        matrices, matrix_of = _priced(
            problem.edge_tables, problem.edge_table_of, self._edges, edge_weights, weight, reuse[1]
        )
        return Numbers(vectors, matrices, vector_of, matrix_of)


def priced_cost(numbers: Numbers, edges: Sequence[tuple[int, int]], choice: Sequence[int]) -> float:
    """What a choice costs in these numbers."""
    nodes = (numbers.vectors[v][c] for v, c in zip(numbers.vector_of, choice, strict=True))
    pairs = (
        numbers.matrices[m][choice[u], choice[v]]
        for m, (u, v) in zip(numbers.matrix_of, edges, strict=True)
    )
    return math.fsum((*nodes, *pairs))


def _flat(
    tables: Sequence[NodeTable] | Sequence[EdgeTable],
) -> tuple[FloatArray, list[list[int]]]:
    """All memory vectors end to end, and where each begins, per table."""
    offsets: list[list[int]] = []
    pieces: list[FloatArray] = []
    position = 0
    for table in tables:
        offsets.append([])
        for vector in table.memory_bytes:
            offsets[-1].append(position)
            pieces.append(vector.ravel())
            position += vector.size
    return np.concatenate(pieces) if pieces else np.zeros(0), offsets


def _entries(
    table_of: Sequence[int],
    intervals: Sequence[Sequence[tuple[int, int]]],
    offsets: Sequence[Sequence[int]],
) -> _Entries:
    own = np.array(table_of, dtype=np.intp)
    counts = np.array([len(begin) for begin in offsets], dtype=np.intp)[own]
    owners, tables = np.repeat(np.arange(len(own)), counts), np.repeat(own, counts)
    vectors = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = np.array([0, *accumulate(map(len, offsets))], dtype=np.intp)
    flat = np.array(list(chain.from_iterable(offsets)), dtype=np.intp)
    spans = chain.from_iterable(chain.from_iterable(intervals))
    starts, ends = np.fromiter(spans, dtype=np.intp).reshape(-1, 2).T
    return _Entries(owners, tables, vectors, starts, ends, flat[begins[tables] + vectors])


def _weights(entries: _Entries, prices: Prices, later: NDArray[np.bool_]) -> FloatArray:
    weights = _covered(entries, prices.per_byte)
    if prices.later_per_byte is None:
        return weights
    return np.where(later, _covered(entries, prices.later_per_byte), weights)


def _covered(entries: _Entries, per_byte: FloatArray) -> FloatArray:
    """Sum of the prices of the time points of each interval."""
    running = np.concatenate(([0.0], np.cumsum(per_byte)))
    covered: FloatArray = running[entries.ends] - running[entries.starts]
    return covered


def _priced(
    tables: Sequence[NodeTable] | Sequence[EdgeTable],
    table_of: Sequence[int],
    entries: _Entries,
    weights: FloatArray,
    time_weight: float,
    reuse: Reuse,
) -> tuple[list[FloatArray], list[int]]:
    """Distinct priced tables, and which one each owner has; those of the last prices are the same
    arrays where they are equal.
    """
    reuse.begin()
    charged = weights.nonzero()[0]
    owners = entries.owners[charged].tolist()
    vectors = entries.vectors[charged].tolist()
    terms: dict[int, tuple[tuple[int, float], ...]] = {}
    for owner, vector, weight in zip(owners, vectors, weights[charged].tolist(), strict=True):
        terms[owner] = (*terms.get(owner, ()), (vector, weight))
    arrays = [table.time_s * time_weight for table in tables]
    if time_weight == 1.0:
        arrays = [table.time_s for table in tables]
    result_of = list(table_of)
    known: dict[tuple[int, tuple[tuple[int, float], ...]], int] = {}
    for owner, paid in terms.items():
        key = (table_of[owner], paid)
        number = known.get(key)
        if number is None:
            number = known[key] = len(arrays)
            base, memory = arrays[key[0]], tables[key[0]].memory_bytes
            arrays.append(reuse.of((time_weight, key), partial(_charged, base, memory, paid)))
        result_of[owner] = number
    return arrays, result_of


def _charged(
    base: FloatArray, memory: Sequence[FloatArray], paid: Sequence[tuple[int, float]]
) -> FloatArray:
    """A table with what its memory costs."""
    charged: FloatArray = base + sum(weight * memory[vector] for vector, weight in paid)
    return charged
