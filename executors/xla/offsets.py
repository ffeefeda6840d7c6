"""Where a slice begins on each partition: small sums over tables and the partition's number."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from executors.xla.graph import Graph
from executors.xla.hlo import Instruction

Table = NDArray[np.int64]
"""One row for each partition."""

_NUMBER = re.compile(r"-?\d+")
_BINARY: Mapping[str, Callable[[Table, Table], Table]] = MappingProxyType(
    {
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "divide": np.floor_divide,
        "remainder": np.remainder,
        "minimum": np.minimum,
        "maximum": np.maximum,
    }
)


class _UnknownError(Exception):
    """An operation that is none of an offset."""


@dataclass(slots=True)
class Offsets:
    """Computes whole numbers for every partition at once."""

    graph: Graph
    partitions: int
    _found: dict[str, Table] = field(default_factory=dict)

    def of(self, item: Instruction) -> list[tuple[int, ...]] | None:
        """First element of a slice on each partition; None where it depends on data."""
        try:
            starts = [self._value(o).reshape(self.partitions) for o in item.operands[1:]]
        except (_UnknownError, ValueError, IndexError):
            return None
        return [tuple(int(s[rank]) for s in starts) for rank in range(self.partitions)]

    def _value(self, name: str) -> Table:
        if name not in self._found:
            self._found[name] = self._computed(self.graph.items[name])
        return self._found[name]

    def _computed(self, item: Instruction) -> Table:
        dims = item.shape.dims
        if item.opcode == "partition-id":
            return np.arange(self.partitions, dtype=np.int64)
        if item.opcode == "constant":
            return self._constant(item)
        if item.opcode in {"reshape", "convert", "copy", "bitcast"}:
            return self._value(item.operands[0]).reshape(self.partitions, *dims)
        if item.opcode in _BINARY:
            one, other = (self._value(o) for o in item.operands)
            return _BINARY[item.opcode](one, other)
        if item.opcode == "dynamic-slice":
            return self._slice(item)
        if item.opcode == "broadcast" and not self.graph.items[item.operands[0]].shape.dims:
            value = self._value(item.operands[0]).reshape(self.partitions, *(1,) * len(dims))
            return np.broadcast_to(value, (self.partitions, *dims))
        raise _UnknownError(item.opcode)

    def _constant(self, item: Instruction) -> Table:
        inside = item.rest.split(", metadata")[0]
        if "..." in inside:
            raise _UnknownError("a table that is not printed")
        numbers = [int(n) for n in _NUMBER.findall(inside)]
        if len(numbers) != item.shape.elements:
            raise _UnknownError(inside)
        own = np.array(numbers, dtype=np.int64).reshape(item.shape.dims)
        return np.broadcast_to(own, (self.partitions, *item.shape.dims))

    def _slice(self, item: Instruction) -> Table:
        table = self._value(item.operands[0])
        starts = [self._value(o).reshape(self.partitions) for o in item.operands[1:]]
        sizes = item.shape.dims
        rows = []
        for rank in range(self.partitions):
            index = tuple(
                slice(int(s[rank]), int(s[rank]) + n) for s, n in zip(starts, sizes, strict=True)
            )
            rows.append(table[rank][index].reshape(sizes))
        return np.stack(rows)
