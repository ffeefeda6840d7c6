"""From a partitioned XLA module to messages, counted as plans count them.

XLA completes a sum where it arises. What its GPU and TPU pipelines do about that afterwards, and
the one for CPUs lacks, is done here on the partitioned module, and named:

- equal instructions are one, unused ones none (CSE, DCE);
- an all-reduce whose result goes only through moves of elements and scalings into a slice by
  partition is a reduce-scatter (ReduceScatterCreator); one of which a smaller group takes slices
  is a reduce-scatter there and an all-reduce of the slices across (AllReduceSplitter);
- sums of all-reduces over the same groups are one all-reduce of the sum (AllReduceReassociate);
- an all-reduce of an all-reduce across other axes is one over both (AllReduceFolder).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from executors.judgement import Traffic
from executors.xla.graph import Graph
from executors.xla.hlo import Groups, Instruction, Module, groups_of

SCATTERED = "an all-reduce of which each device takes its slice is a reduce-scatter"
SPLIT = "an all-reduce sliced inside smaller groups is a reduce-scatter there, then an all-reduce"
ADDED = "all-reduces that are only added to one another are one of the sum"
FOLDED = "an all-reduce of an all-reduce over other axes is one over both"
SMALL = "single numbers are not compared"
REORDERED = "permutations count as messages between two"

SMALL_BYTES = 16
"""A loss, a norm, a count: neither side is held to these."""
_LINEAR = frozenset({"copy", "transpose", "convert", "negate", "reshape", "bitcast"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What was found in a module."""

    messages: tuple[Traffic, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Sum:
    """An all-reduce on its way to where its result is needed."""

    groups: Groups
    at: str
    """The value that is the completed sum now."""
    origins: frozenset[str]
    """The all-reduces that it consists of."""
    path: frozenset[str]
    """All values on the way, these included."""


def read(module: Module, partitions: int, wide: Mapping[str, float] | None = None) -> Reading:
    """Messages of the entry of a partitioned module.

    Args:
        module: right after partitioning.
        partitions: how many devices it is for.
        wide: bytes of an element where they differ from those of the module's type: JAX keeps
            whole numbers of 64 bits in 32.
    """
    return _Reader(Graph(module), module, partitions, dict(wide or {})).run()


@dataclass(slots=True)
class _Reader:
    graph: Graph
    module: Module
    partitions: int
    wide: Mapping[str, float]
    found: Counter[tuple[str, int, float]] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)

    def run(self) -> Reading:
        sums: dict[str, _Sum] = {}
        for item in self.graph.live:
            if item.opcode.startswith("all-reduce") and self._adds(item):
                start = frozenset({item.name})
                sums[item.name] = _Sum(groups_of(item, self.partitions), item.name, start, start)
            elif item.opcode.startswith(("all-", "collective-permute", "reduce-scatter")):
                self._count_plain(item)
        self._settle(sums)
        return Reading(tuple(self._traffic()), tuple(self.notes))

    def _adds(self, item: Instruction) -> bool:
        found = item.rest.partition("to_apply=%")[2].split(",")[0].strip()
        return self.module.combiners.get(found) == "add"

    def _bytes(self, item: Instruction) -> float:
        return sum(s.elements * self.wide.get(s.dtype, s.item_bytes) for s in item.shapes)

    def _count_plain(self, item: Instruction) -> None:
        """A message whose kind is its own."""
        groups = groups_of(item, self.partitions)
        size = max(len(group) for group in groups)
        kind = item.opcode.removesuffix("-start").replace("-", "_")
        if kind == "collective_permute":
            if all(len(set(pair)) == 1 for pair in groups):
                return
            kind, size = "point_to_point", 2
            self.notes[REORDERED] = None
        operand = self.graph.items[item.operands[0]]
        nbytes = self._bytes(operand) if kind == "reduce_scatter" else self._bytes(item)
        self._add(kind, size, nbytes)

    def _add(self, kind: str, size: int, nbytes: float) -> None:
        if size > 1:
            self.found[kind, size, nbytes] += 1

    def _settle(self, sums: Mapping[str, _Sum]) -> None:
        """Take every sum as far as it can wait, merge those that meet, and count what is left."""
        waiting = dict(sums)
        while waiting:
            moved = self._met({n: self._as_far_as_possible(each) for n, each in waiting.items()})
            if moved != waiting:
                waiting = moved
                continue
            cut = {name: parts for name, each in waiting.items() if (parts := self._parts(each))}
            if not cut:
                break
            for name, parts in cut.items():
                self._scatter(waiting.pop(name), parts, waiting)
        for each in waiting.values():
            self._add("all_reduce", len(each.groups[0]), self._bytes(self.graph.items[each.at]))

    def _as_far_as_possible(self, each: _Sum) -> _Sum:
        while (user := self.graph.only_user(each.at)) is not None:
            scaled = user.opcode in {"multiply", "divide"} and self.graph.is_scaling(user, each.at)
            if not (user.opcode in _LINEAR or scaled or self.graph.is_reshape(user, each.at)):
                break
            each = replace(each, at=user.name, path=each.path | {user.name})
        return each

    def _met(self, sums: dict[str, _Sum]) -> dict[str, _Sum]:
        """Sums after those that meet were merged."""
        out = dict(sums)
        for name, each in sums.items():
            user = self.graph.only_user(each.at)
            if name not in out or user is None:
                continue
            if user.name in out and out[user.name].at == user.name:
                later = out.pop(user.name)
                out[name] = replace(
                    each,
                    at=later.at,
                    groups=_joined(each.groups, later.groups),
                    path=each.path | later.path,
                )
                self.notes[FOLDED] = None
                continue
            if user.opcode not in {"add", "subtract"}:
                continue
            other = next((o for o in user.operands if o != each.at), each.at)
            partner = next((n for n, s in out.items() if n != name and s.at == other), None)
            alone = self.graph.only_user(other) is user
            if partner is None or not alone or out[partner].groups != each.groups:
                continue
            other_sum = out.pop(partner)
            path = each.path | other_sum.path | {user.name}
            out[name] = _Sum(each.groups, user.name, each.origins | other_sum.origins, path)
            self.notes[ADDED] = None
        return out

    def _scatter(
        self, each: _Sum, parts: tuple[Instruction, Groups], waiting: dict[str, _Sum]
    ) -> None:
        """Count what hands out the parts of a sum; where slices are taken inside smaller groups
        each part is still to be summed across them.
        """
        user, groups = parts
        size = len(each.groups[0])
        pieces = size // len(groups[0])
        self._add("reduce_scatter", pieces, self._bytes(self.graph.items[each.at]))
        if pieces == size:
            self.notes[SCATTERED] = None
            return
        self.notes[SPLIT] = None
        start = frozenset({user.name})
        waiting[user.name] = _Sum(groups, user.name, start, start)

    def _parts(self, each: _Sum) -> tuple[Instruction, Groups] | None:
        """The slice in which the devices of a group cut a sum, and those that take the same part;
        None if it is needed whole.
        """
        user = self.graph.only_user(each.at)
        if user is None or user.opcode != "dynamic-slice" or user.operands[0] != each.at:
            return None
        offsets = Offsets(self.graph, self.partitions).of(user)
        whole, part = self.graph.items[each.at].shape.elements, user.shape.elements
        if offsets is None or not self._is_slice_of_origin(each, user):
            return None
        found: list[tuple[int, ...]] = []
        for group in each.groups:
            same: dict[tuple[int, ...], list[int]] = {}
            for rank in group:
                same.setdefault(offsets[rank], []).append(rank)
            if len(same) == 1 or len(same) * part != whole:
                return None
            found += [tuple(ranks) for ranks in same.values()]
        return (user, tuple(sorted(found))) if len({len(g) for g in found}) == 1 else None

    def _is_slice_of_origin(self, each: _Sum, user: Instruction) -> bool:
        """Whether what is cut from the moved sum is cut along dimensions that it had at first."""
        before = self.graph.items[each.at].shape.dims
        cut = [d for d, (a, b) in enumerate(zip(before, user.shape.dims, strict=True)) if a != b]
        name = each.at
        while name not in each.origins:
            item = self.graph.items[name]
            name = next((o for o in item.operands if o in each.path), item.operands[0])
            found = [self.graph.dim_before(item, name, dim) for dim in cut]
            if None in found:
                return False
            cut = [dim for dim in found if dim is not None]
        return True

    def _traffic(self) -> Iterator[Traffic]:
        for (kind, size, nbytes), count in sorted(self.found.items()):
            if nbytes <= SMALL_BYTES:
                self.notes[SMALL] = None
                continue
            yield Traffic(kind, size, nbytes * count, count)


def _joined(one: Groups, other: Groups) -> Groups:
    """Groups of partitions that either reaches."""
    found: list[set[int]] = []
    for group in (*one, *other):
        near = [each for each in found if each & set(group)]
        found = [each for each in found if each not in near]
        found.append(set(group).union(*near))
    return tuple(sorted(tuple(sorted(each)) for each in found))


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
