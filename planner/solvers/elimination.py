"""Exact elimination of all nodes, in which equal sub-problems are solved once.

Two buckets are equal if they have the same shape, the same node vector and the same incoming
tables by identity. A model of eighty equal layers then costs what two layers cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from planner.problem import FloatArray
from planner.solvers.buckets import Plan, Shape
from planner.solvers.min_plus import Table, align, minimum_over_first, minimum_over_rest
from planner.solvers.reuse import Reuse


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
