"""One operator with data for its operands: what the laws of the catalogue are tried on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from executors.placement import Array
from ir.graph import AttributeValue, Op, OpGraph, Role, Tensor
from ir.ops import OpView, lookup
from ir.rule import ShardingRule

Draw = random.Random
Maker = Callable[[Draw], "Iterator[Example]"]


@dataclass(frozen=True)
class Example:
    """A graph of one operator, and an array for each of its operands."""

    graph: OpGraph
    data: Mapping[str, Array]

    @property
    def op(self) -> Op:
        return self.graph.ops[0]

    @cached_property
    def view(self) -> OpView:
        return OpView(self.op, self.graph)

    @cached_property
    def rule(self) -> ShardingRule:
        return lookup(self.op.kind).rule(self.view)

    @property
    def operands(self) -> list[Array | None]:
        return [self.data[n] if n else None for n in self.op.inputs]

    def having(self, attributes: Mapping[str, AttributeValue]) -> Example:
        """The same with more attributes."""
        op = replace(self.op, attributes={**self.op.attributes, **attributes})
        return replace(self, graph=replace(self.graph, ops=(op,)))

    def __str__(self) -> str:
        shapes = [None if a is None else a.shape for a in self.operands]
        return f"{self.op.kind} {shapes} {dict(self.op.attributes)}"


def example(
    kind: str,
    operands: Sequence[Array | None],
    results: Sequence[tuple[int, ...]],
    dtypes: Sequence[str] = (),
    parts: Sequence[Op] = (),
    inner: Mapping[str, Tensor] | None = None,
    **attributes: AttributeValue,
) -> Example:
    """An operator of a kind; results have the type of the first operand unless told."""
    names = tuple(f"x{i}" if a is not None else "" for i, a in enumerate(operands))
    data = {n: a for n, a in zip(names, operands, strict=True) if a is not None}
    first = next(iter(data.values())).dtype.name if data else "float64"
    tensors = {n: Tensor(n, a.shape, a.dtype.name, Role.INPUT) for n, a in data.items()}
    outputs = tuple(f"y{i}" for i in range(len(results)))
    for index, (name, dims) in enumerate(zip(outputs, results, strict=True)):
        dtype = dtypes[index] if index < len(dtypes) else first
        tensors[name] = Tensor(name, tuple(dims), dtype)
    op = Op("op", kind, names, outputs, attributes, "", tuple(parts))
    table = {**tensors, **(inner or {})}
    return Example(OpGraph(kind, table, (op,), tuple(data), outputs), data)


def floats(draw: Draw, *dims: int, low: float = -2.0, high: float = 2.0) -> Array:
    """Random numbers in double precision."""
    return np.random.default_rng(draw.randrange(1 << 30)).uniform(low, high, dims)


def whole_numbers(draw: Draw, *dims: int, below: int, least: int = 0) -> Array:
    """Random whole numbers, as indices are."""
    return np.random.default_rng(draw.randrange(1 << 30)).integers(least, below, dims)


def some_dims(draw: Draw, rank: int, sizes: Sequence[int] = (1, 2, 3, 4, 6, 8)) -> tuple[int, ...]:
    return tuple(draw.choice(sizes) for _ in range(rank))
