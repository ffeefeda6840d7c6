"""The problem without its memory limit, under given prices on memory, solved by elimination.

Two candidates of a node with equal rows in every edge table differ in the node's own cost alone.
Under given prices the cheaper one stands for both, so elimination runs over classes of such
candidates. Keeping a tensor or computing it again are two of one class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.problem import EdgeTable, FloatArray, Problem
from planner.solvers.contract import Meter
from planner.solvers.elimination import Program, compile_program, run_program
from planner.solvers.elimination_order import Plan, make_plan
from planner.solvers.ledger import Ledger, Numbers, Prices, Reuse

IndexArray: TypeAlias = NDArray[np.intp]
Side: TypeAlias = tuple[int, int]
"""An edge table, and 0 for its rows or 1 for its columns."""
IntTuple: TypeAlias = tuple[int, ...]
Allowed: TypeAlias = Mapping[int, NDArray[np.bool_]]
"""Which candidates some nodes may choose."""
KEPT_PROGRAMS = 8
"""Programs that are kept for the next pass."""
EXACT_SHARE = 0.25
"""Share of the work left that a single exact pass may take."""
MAX_KEPT = 1 << 26
"""Table entries that may be held: half a gibibyte."""


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Groups of the candidates of some node tables."""

    group_of: IndexArray
    """Group of each candidate, shape (C,)."""
    first: IndexArray
    """First candidate of each group, shape (G,)."""


class CandidateClasses:
    """Classes of candidates that no neighbour can tell apart; node tables that share an edge table
    share their classes.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._kept_vectors, self._kept_matrices = Reuse(), Reuse()
        node_of_side = _sides(problem)
        class_of = _classes(problem, node_of_side)
        sides: dict[int, list[Side]] = {}
        for side, tables in node_of_side.items():
            sides.setdefault(class_of[tables[0]], []).append(side)
        self._groups = {
            table: _grouped(problem, table, sides.get(root, []))
            for table, root in enumerate(class_of)
            if table == root
        }
        self._of_table = [self._groups[root] for root in class_of]
        self._of_side = {side: self._of_table[tables[0]] for side, tables in node_of_side.items()}
        counts = [len(groups.first) for groups in self._of_table]
        self.sizes = tuple(counts[table] for table in problem.node_table_of)
        """Number of groups of each node."""

    def collapsed(self, numbers: Numbers) -> tuple[Numbers, Expansion]:
        """The numbers over groups, and the way back."""
        table_of_vector = dict(zip(numbers.vector_of, self._problem.node_table_of, strict=True))
        table_of_matrix = dict(zip(numbers.matrix_of, self._problem.edge_table_of, strict=True))
        vectors: list[FloatArray] = []
        members: list[IndexArray] = []
        self._kept_vectors.begin()
        self._kept_matrices.begin()
        for number, vector in enumerate(numbers.vectors):
            table = table_of_vector.get(number)
            make = partial(self._chosen, vector, table)
            _, best, small_vector = self._kept_vectors.of((id(vector), table), make)
            members.append(best)
            vectors.append(small_vector)
        matrices = [
            matrix if number not in table_of_matrix else self._kept(matrix, table_of_matrix[number])
            for number, matrix in enumerate(numbers.matrices)
        ]
        small = Numbers(vectors, matrices, numbers.vector_of, numbers.matrix_of)
        return small, Expansion(members, numbers.vector_of)

    def _chosen(
        self, vector: FloatArray, table: int | None
    ) -> tuple[FloatArray, IndexArray, FloatArray]:
        """A vector, the cheapest of each group, and what these cost."""
        groups = None if table is None else self._of_table[table]
        best = np.arange(len(vector)) if groups is None else _cheapest(vector, groups)
        return vector, best, vector[best]

    def _kept(self, matrix: FloatArray, table: int) -> FloatArray:
        rows, columns = self._of_side[table, 0].first, self._of_side[table, 1].first
        if len(rows) == matrix.shape[0] and len(columns) == matrix.shape[1]:
            return matrix
        make = partial(_with_part, matrix, rows, columns)
        return self._kept_matrices.of((id(matrix), table), make)[1]


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """From a choice of groups to a choice of candidates."""

    members: Sequence[IndexArray]
    """Cheapest candidate of each group, by vector."""
    vector_of: Sequence[int]

    def choice(self, groups: Sequence[int]) -> tuple[int, ...]:
        """The cheapest member of each chosen group."""
        return tuple(
            int(self.members[vector][group])
            for vector, group in zip(self.vector_of, groups, strict=True)
        )


def _with_part(
    matrix: FloatArray, rows: IndexArray, columns: IndexArray
) -> tuple[FloatArray, FloatArray]:
    """A matrix and its part."""
    return matrix, np.ascontiguousarray(matrix[np.ix_(rows, columns)])


def _cheapest(vector: FloatArray, groups: _Groups) -> IndexArray:
    """First of the cheapest candidates of each group."""
    order = np.lexsort((vector, groups.group_of))
    starts = np.searchsorted(groups.group_of[order], np.arange(len(groups.first)))
    return np.asarray(order[starts], dtype=np.intp)


def _sides(problem: Problem) -> dict[Side, list[int]]:
    """Node tables at each side of each edge table."""
    found: dict[Side, dict[int, None]] = {}
    for (u, v), table in zip(problem.edges, problem.edge_table_of, strict=True):
        found.setdefault((table, 0), {})[problem.node_table_of[u]] = None
        found.setdefault((table, 1), {})[problem.node_table_of[v]] = None
    return {side: list(tables) for side, tables in found.items()}


def _classes(problem: Problem, sides: dict[Side, list[int]]) -> list[int]:
    """Smallest node table among those that share edge tables, for each node table.

    By hand, for every search needs it: networkx takes a quarter of a second to load.
    """
    smaller = list(range(len(problem.node_tables)))

    def smallest(table: int) -> int:
        while smaller[table] != table:
            smaller[table] = table = smaller[smaller[table]]
        return table

    for tables in sides.values():
        for pair in pairwise(tables):
            low, high = sorted(map(smallest, pair))
            smaller[high] = low
    return [smallest(table) for table in range(len(smaller))]


def _grouped(problem: Problem, table: int, sides: Sequence[Side]) -> _Groups:
    count = problem.node_tables[table].time_s.shape[0]
    columns = [_row_numbers(problem.edge_tables[number], side) for number, side in sides]
    group_of = _numbered(np.stack(columns, axis=1) if columns else np.zeros((count, 0)))
    # Groups are numbered by their first candidate, so that groups of one leave the order as it is.
    first = np.flatnonzero(np.diff(np.maximum.accumulate(group_of), prepend=-1))
    return _Groups(group_of, first)


def _row_numbers(table: EdgeTable, side: int) -> IndexArray:
    """Equal numbers for candidates with equal rows (side 0) or columns (side 1)."""
    if side not in table.row_numbers:
        matrices = [m if side == 0 else m.T for m in (table.time_s, *table.memory_bytes)]
        joined = np.concatenate(matrices, axis=1) if len(matrices) > 1 else matrices[0]
        table.row_numbers[side] = _numbered(joined)
    return table.row_numbers[side]


def _numbered(matrix: FloatArray | IndexArray) -> IndexArray:
    """Equal numbers for rows with equal bytes, from 0 on as they come."""
    width = matrix.shape[1] * matrix.itemsize
    if not width:
        return np.zeros(len(matrix), dtype=np.intp)
    data = matrix.tobytes()
    known: dict[bytes, int] = {}
    rows = (data[place : place + width] for place in range(0, len(data), width))
    return np.array([known.setdefault(row, len(known)) for row in rows], dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """Answer to one set of prices."""

    choice: tuple[int, ...]
    """One candidate per node; a minimiser if exact."""
    bound: float
    """No choice has a lower priced cost."""


class Relaxation(Protocol):
    """Solves the problem without its limit."""

    def solve(self, prices: Prices | None = None) -> Relaxed: ...


class ExactRelaxation:
    """Variable elimination; the order is found once and serves all prices."""

    def __init__(self, ledger: Ledger, meter: Meter, plan: Plan, classes: CandidateClasses) -> None:
        self._ledger = ledger
        self._classes = classes
        self._meter = meter
        self._plan = plan
        self._reuse = Reuse()
        self._programs: dict[tuple[IntTuple, IntTuple], Program] = {}
        program = self._program(ledger.problem.node_table_of, ledger.problem.edge_table_of)
        self.work = program.work
        """Table entries that one pass visits, prices apart."""
        self.kept = program.kept
        """Table entries that one pass holds."""

    def solve(self, prices: Prices | None = None, allowed: Allowed | None = None) -> Relaxed:
        """Solve; nodes named in `allowed` only choose among those candidates."""
        numbers = _only(self._ledger.numbers(prices), allowed or {})
        numbers, expansion = self._classes.collapsed(numbers)
        program = self._program(tuple(numbers.vector_of), tuple(numbers.matrix_of))
        self._meter.charge(program.work, self._plan.nodes)
        result = run_program(program, numbers, self._reuse)
        return Relaxed(expansion.choice(result.choice), result.value)

    def _program(self, vector_of: IntTuple, matrix_of: IntTuple) -> Program:
        """Prices at the same time points leave the same nodes equal."""
        key = (vector_of, matrix_of)
        if key not in self._programs:
            if len(self._programs) == KEPT_PROGRAMS:
                del self._programs[next(iter(self._programs))]
            self._programs[key] = compile_program(self._plan, vector_of, matrix_of)
        return self._programs[key]


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedRelaxation:
    """The same where some nodes may only choose among some candidates."""

    exact: ExactRelaxation
    allowed: Allowed

    def solve(self, prices: Prices | None = None) -> Relaxed:
        return self.exact.solve(prices, self.allowed)


def _only(numbers: Numbers, allowed: Allowed) -> Numbers:
    """The numbers with no finite cost for other candidates."""
    if not allowed:
        return numbers
    vectors: list[FloatArray] = list(numbers.vectors)
    vector_of = list(numbers.vector_of)
    for node, mask in allowed.items():
        vectors.append(np.where(mask, vectors[vector_of[node]], np.inf))
        vector_of[node] = len(vectors) - 1
    return Numbers(vectors, numbers.matrices, vector_of, numbers.matrix_of)


def exact_relaxation(ledger: Ledger, meter: Meter, largest_bucket: int) -> ExactRelaxation | None:
    """Elimination, if no table is too large and one pass leaves most of the work for others."""
    problem = ledger.problem
    classes = CandidateClasses(problem)
    plan = make_plan(classes.sizes, problem.edges, give_up_above=largest_bucket)
    if plan.largest > largest_bucket:
        return None
    relaxation = ExactRelaxation(ledger, meter, plan, classes)
    fits = relaxation.kept <= MAX_KEPT and relaxation.work <= meter.left * EXACT_SHARE
    return relaxation if fits else None


def elimination_work(problem: Problem) -> int:
    """Table entries that exact elimination of a problem visits once."""
    plan = make_plan(CandidateClasses(problem).sizes, problem.edges)
    return compile_program(plan, problem.node_table_of, problem.edge_table_of).work
