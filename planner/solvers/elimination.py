"""Exact elimination of all nodes, in which equal sub-problems are solved once.

Two buckets are equal if they have the same shape, the same node vector and the same incoming
tables by identity. A model of eighty equal layers then costs what two layers cost.

The inner loop adds tables over different dimensions and minimises over the first one. Sums are
taken in blocks that stay in the cache, so that the memory in use is that of the result. Where there
is much to do, products of two tables go to a compiled loop that is ten times as fast and gives the
same bits; small problems are solved before it would be loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from planner.problem import FloatArray
from planner.solvers.alignment import Table, align, merge, widened
from planner.solvers.elimination_order import Plan, Shape
from planner.solvers.ledger import Numbers, Reuse

BLOCK_ENTRIES = 1 << 16
"""Entries of one block: 512 KiB of float64, about one second-level cache."""
COMPILED_FROM = 1 << 29
"""Entries that a process visits before it loads the compiled loop: both take half a second."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The elimination of one class of equal buckets."""

    shape: int
    """Shape in the plan."""
    vector: int
    """Vector of the node."""
    inputs: tuple[int, ...]
    """Class of each slot: matrices by their number, messages counted on from there."""
    first_output: int
    """Class of the message of the first part."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Distinct operations of a plan for one assignment of vectors and matrices."""

    plan: Plan
    operations: tuple[Operation, ...]
    operation_of: tuple[int, ...]
    """Operation of each bucket."""
    matrices: int
    """Number of matrices."""
    work: int
    """Table entries that one run visits."""
    kept: int
    """Table entries that one run holds at its end."""
    multiplicity: tuple[int, ...]
    """Buckets of each operation."""


@dataclass(frozen=True, slots=True, eq=False)
class Elimination:
    """Result of a run."""

    value: float
    """Minimum, or a lower bound if the plan splits buckets."""
    choice: tuple[int, ...]
    """A minimiser, or a good guess if the plan splits buckets; -1 for fixed nodes."""


def compile_program(plan: Plan, vector_of: Sequence[int], matrix_of: Sequence[int]) -> Program:
    """Find the distinct operations.

    Args:
        plan: order of elimination.
        vector_of: identity of the vector of each node.
        matrix_of: identity of the matrix of each edge.

    Returns:
        The operations, in order.
    """
    matrices = max(matrix_of, default=-1) + 1
    classes = [*matrix_of, *([0] * plan.messages)]
    known: dict[tuple[int, ...], int] = {}
    operations: list[Operation] = []
    operation_of: list[int] = []
    next_class = matrices
    for bucket in plan.buckets:
        key = (bucket.shape, vector_of[bucket.node], *[classes[slot] for slot in bucket.slots])
        number = known.get(key)
        if number is None:
            number = known[key] = len(operations)
            operations.append(Operation(key[0], key[1], key[2:], next_class))
            next_class += len(bucket.messages)
        operation_of.append(number)
        output = operations[number].first_output
        for slot in bucket.messages:
            classes[slot] = output
            output += 1
    counts = np.bincount(np.array(operation_of, dtype=np.intp), minlength=len(operations))
    shapes = [plan.shapes[operation.shape] for operation in operations]
    return Program(
        plan=plan,
        operations=tuple(operations),
        operation_of=tuple(operation_of),
        matrices=matrices,
        work=sum(shape.work for shape in shapes),
        kept=sum(shape.work // shape.sizes[0] for shape in shapes),
        multiplicity=tuple(counts.tolist()),
    )


def run_program(program: Program, numbers: Numbers, reuse: Reuse | None = None) -> Elimination:
    """Eliminate every node, then choose backwards.

    Args:
        program: what is done.
        numbers: with what.
        reuse: messages of the last run of the same plan; those of the same arrays are the same.
    """
    shapes = program.plan.shapes
    reuse = reuse or Reuse()
    reuse.begin()
    tables: list[FloatArray] = list(numbers.matrices[: program.matrices])
    constants: list[float] = []
    for operation, count in zip(program.operations, program.multiplicity, strict=True):
        shape = shapes[operation.shape]
        given = (numbers.vectors[operation.vector], *[tables[i] for i in operation.inputs])
        make = partial(_made, shape, operation, tables, given)
        messages, _ = reuse.of((operation.shape, *map(id, given)), make)
        for message in messages:
            tables.append(message)
            if message.ndim == 0:
                constants.extend([float(message)] * count)
    return Elimination(math.fsum(constants), _decode(program, numbers, tables))


def _made(
    shape: Shape,
    operation: Operation,
    tables: Sequence[FloatArray],
    given: tuple[FloatArray, ...],
) -> tuple[list[FloatArray], tuple[FloatArray, ...]]:
    """The messages of an operation, and what they were made of."""
    return _messages(shape, given[0], operation, tables), given


def _messages(
    shape: Shape, vector: FloatArray, operation: Operation, tables: Sequence[FloatArray]
) -> list[FloatArray]:
    slots = [
        align(axes, tables[number])
        for axes, number in zip(shape.axes, operation.inputs, strict=True)
    ]
    parts: list[list[Table]] = [[slots[i] for i in part.slots] for part in shape.parts]
    parts[0].append(((0,), vector))
    if len(parts) > 1:
        _match(shape, parts)
    return [
        minimum_over_first(tables, part.positions, shape.sizes)
        for part, tables in zip(shape.parts, parts, strict=True)
    ]


def _match(shape: Shape, parts: Sequence[list[Table]]) -> None:
    """Shift cost between the parts until all have the same minimum for each candidate.

    Source: A. Ihler et al., "Join-graph based cost-shifting schemes", UAI 2012 (moment matching).
    """
    lowest = [
        minimum_over_rest(tables, part.positions, shape.sizes)
        for part, tables in zip(shape.parts, parts, strict=True)
    ]
    mean = np.mean(lowest, axis=0)
    for tables, own in zip(parts, lowest, strict=True):
        tables.append(((0,), mean - own))


def _decode(program: Program, numbers: Numbers, tables: Sequence[FloatArray]) -> tuple[int, ...]:
    choice = [-1] * program.plan.nodes
    known: dict[tuple[int, ...], int] = {}
    buckets = program.plan.buckets
    for bucket, number in zip(reversed(buckets), reversed(program.operation_of), strict=True):
        key = (number, *[choice[node] for node in bucket.scope])
        best = known.get(key)
        if best is None:
            operation = program.operations[number]
            axes = program.plan.shapes[bucket.shape].axes
            best = known[key] = _best_candidate(
                numbers.vectors[operation.vector],
                [tables[i] for i in operation.inputs],
                axes,
                key,
            )
        choice[bucket.node] = best
    return tuple(choice)


def _best_candidate(
    vector: FloatArray,
    tables: Sequence[FloatArray],
    axes: Sequence[tuple[int, ...]],
    key: tuple[int, ...],
) -> int:
    """First candidate of least total, given the choices `key[1:]` of the neighbours."""
    total = vector
    for table, positions in zip(tables, axes, strict=True):
        index = tuple([slice(None) if p == 0 else key[p] for p in positions])
        total = total + table[index]
    return int(total.argmin())


def minimum_over_first(
    tables: Sequence[Table], positions: tuple[int, ...], sizes: Sequence[int]
) -> FloatArray:
    """Minimum of the sum over position 0.

    Args:
        tables: what is added, at least one; every position is mentioned by one of them.
        positions: positions of the sum, ascending; the first is 0.
        sizes: entries of each position, indexed by position.

    Returns:
        One dimension for each of `positions[1:]`.
    """
    merged = merge(tables)
    shape = tuple([sizes[position] for position in positions])
    if math.prod(shape) > BLOCK_ENTRIES:
        product = _product(merged, math.prod(shape))
        if product is not None:
            return product
    spread = [widened(mentioned, array, positions) for mentioned, array in merged]
    if math.prod(shape) <= BLOCK_ENTRIES:
        return np.asarray(_total(spread).min(axis=0))
    result = np.empty(shape[1:])
    for rows in _row_blocks(shape):
        _minimise_rows(spread, shape, rows, result)
    return result


class _Compiled:
    """The compiled loop, once there is enough to do."""

    def __init__(self) -> None:
        self._visited = 0
        self._min_plus: Callable[[FloatArray, FloatArray], FloatArray] | None = None

    def loop(self, entries: int) -> Callable[[FloatArray, FloatArray], FloatArray] | None:
        self._visited += entries
        if self._min_plus is None and self._visited > COMPILED_FROM:
            from planner.solvers.kernels.messages import min_plus  # noqa: PLC0415  and numba

            self._min_plus = min_plus
        return self._min_plus


_COMPILED = _Compiled()


def _product(tables: Sequence[Table], entries: int) -> FloatArray | None:
    """Minimum over position 0 of two tables that share no other; None where it is none such."""
    if len(tables) != 2:
        return None
    (left, first), (right, second) = tables
    if left[0] or right[0] or set(left[1:]) & set(right[1:]):
        return None
    loop = _COMPILED.loop(entries)
    if loop is None:
        return None
    rows = len(first)
    lowest = loop(
        np.ascontiguousarray(first.reshape(rows, -1)),
        np.ascontiguousarray(second.reshape(rows, -1)),
    ).reshape(first.shape[1:] + second.shape[1:])
    order = np.argsort([*left[1:], *right[1:]], kind="stable")
    return np.ascontiguousarray(lowest.transpose(order))


def minimum_over_rest(
    tables: Sequence[Table], positions: tuple[int, ...], sizes: Sequence[int]
) -> FloatArray:
    """Minimum of the sum over all positions but 0, shape (sizes[0],)."""
    spread = [widened(mentioned, array, positions) for mentioned, array in merge(tables)]
    shape = tuple([sizes[position] for position in positions])
    result = np.full(shape[0], np.inf)
    for rows in _row_blocks(shape):
        for first in range(shape[0]):
            block = _block(spread, slice(first, first + 1), rows)
            result[first] = min(result[first], _total(block).min())
    return result


def _total(spread: Sequence[FloatArray]) -> FloatArray:
    total = spread[0]
    for array in spread[1:]:
        total = total + array
    return total


def _row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of the second dimension whose block, for one entry of the first, fits the cache."""
    if len(shape) == 1:
        yield slice(0, 1)
        return
    rows = max(1, BLOCK_ENTRIES // max(1, math.prod(shape[2:])))
    for start in range(0, shape[1], rows):
        yield slice(start, min(start + rows, shape[1]))


def _minimise_rows(
    spread: Sequence[FloatArray], shape: tuple[int, ...], rows: slice, result: FloatArray
) -> None:
    entries = (rows.stop - rows.start) * math.prod(shape[2:])
    step = max(1, BLOCK_ENTRIES // entries)
    target = result[rows]
    for start in range(0, shape[0], step):
        group = slice(start, min(start + step, shape[0]))
        block = _block(spread, group, rows)
        lowest = _total(block).min(axis=0)
        if start:
            np.minimum(target, lowest, out=target)
        else:
            target[...] = lowest


def _block(spread: Sequence[FloatArray], first: slice, rows: slice) -> list[FloatArray]:
    return [_cut(array, first, rows) for array in spread]


def _cut(array: FloatArray, first: slice, rows: slice) -> FloatArray:
    if array.shape[0] > 1:
        array = array[first]
    if array.ndim > 1 and array.shape[1] > 1:
        array = array[:, rows]
    return array
