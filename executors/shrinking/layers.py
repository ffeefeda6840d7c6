"""Equal layers of a planned graph: of those that follow each other two are kept."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from executors.shrinking.rewiring import ends_of, rewired
from ir.graph import Op, OpGraph
from ir.plan import Plan

_KEPT = 2
"""Layers that are kept of every kind."""


def without_equal_layers(plan: Plan) -> tuple[Plan, int]:
    """The plan with two of every kind of layers that follow each other, and how many were left out.

    Layers are equal if their operators, their dims, their splits and layouts, and the layouts of
    what they read are. What a layer that is left out hands on comes from the kept layer before it.
    A graph that holds its own backward pass stays as it is: its layers return there.
    """
    left_out = 0
    while not plan.graph.is_training_step:
        found = next(_runs(plan), None)
        if found is None:
            break
        run, kept = found
        plan = rewired(plan, run.replacements(kept))
        left_out += run.count - len(kept)
    return plan, left_out


def _runs(plan: Plan) -> Iterator[tuple[_Run, list[int]]]:
    """Layers in a row of which some can go, with those that are kept."""
    chain = _Chain(plan)
    for start, period, length in chain.repetitions():
        for run in chain.runs(start, period, length):
            kept = run.kept()
            if len(kept) < run.count:
                yield run, kept


class _Chain:
    """The operators of a plan in a row, with what tells equal ones."""

    def __init__(self, plan: Plan) -> None:
        self.graph = plan.graph
        self.made = {
            name: (index, slot)
            for index, op in enumerate(self.graph.ops)
            for slot, name in enumerate(op.outputs)
            if name
        }
        self.read: dict[str, list[int]] = {}
        for index, op in enumerate(self.graph.ops):
            for name in op.inputs:
                self.read.setdefault(name, []).append(index)
        self.ends = ends_of(self.graph)
        looks: dict[Hashable, int] = {}
        self.looks = np.array(
            [looks.setdefault(_look(op, self.graph), len(looks)) for op in self.graph.ops]
        )
        labels: dict[Hashable, int] = {}
        self.labels = [labels.setdefault(label, len(labels)) for label in _labels(plan)]

    def repetitions(self) -> list[tuple[int, int, int]]:
        """Where operators look as those one period later: start, period and length, what saves
        most first.
        """
        found = []
        for period in range(1, len(self.looks) // (_KEPT + 1) + 1):
            same = self.looks[period:] == self.looks[:-period]
            edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False]))))
            found += [
                (int(start), period, int(end - start))
                for start, end in zip(edges[::2], edges[1::2], strict=True)
                if end - start >= _KEPT * period
            ]
        return sorted(found, key=lambda x: (-(x[2] // x[1] - 1) * x[1], x[1], x[0]))

    def runs(self, start: int, period: int, length: int) -> Iterator[_Run]:
        """Layers in such a place whose operators are also connected alike."""
        places = range(start + period, start + period + length)
        for alike, group in itertools.groupby(places, lambda i: self._alike(i, period)):
            found = list(group)
            first, size = found[0], len(found)
            if not alike:
                continue
            if first - period >= start + period and self._enters(first - period, period):
                first, size = first - period, size + period
            if size // period >= _KEPT:
                yield _Run(self, first - period, period, size // period + 1)

    def _alike(self, index: int, period: int) -> bool:
        """Whether what an operator reads was made one period after what the one before reads."""
        return all(self._follows(x, y, period) for x, y in self._pairs(index, period))

    def _enters(self, first: int, period: int) -> bool:
        """Whether the second layer differs from the one before only in that it reads that layer,
        and that one what comes from outside.
        """
        for index in range(first, first + period):
            for name, before in self._pairs(index, period):
                if self._follows(name, before, period):
                    continue
                one, other = self.made.get(name), self.made.get(before)
                outside = other is not None and other[0] < first - period
                if one is None or not outside or one[0] < first - period:
                    return False
        return True

    def _pairs(self, index: int, period: int) -> Iterator[tuple[str, str]]:
        return zip(self.graph.ops[index].inputs, self.graph.ops[index - period].inputs, strict=True)

    def _follows(self, name: str, before: str, period: int) -> bool:
        if name == before:
            return True
        one, other = self.made.get(name), self.made.get(before)
        if one is None or other is None:
            return one is other
        return one[0] - other[0] == period and one[1] == other[1]


@dataclass(frozen=True, slots=True)
class _Run:
    """Layers that follow each other."""

    chain: _Chain
    start: int
    period: int
    count: int

    def _layer(self, number: int) -> range:
        first = self.start + number * self.period
        return range(first, first + self.period)

    def kept(self) -> list[int]:
        """Layers that stay: of every kind two, and every pair of neighbours.

        What lies between two equal layers can go with the second one: its followers then follow
        the first.
        """
        labels = [tuple(self.chain.labels[i] for i in self._layer(k)) for k in range(self.count)]
        enough = {label: min(n, _KEPT) for label, n in Counter(labels).items()}
        pairs = set(itertools.pairwise(labels))
        bound = [self._is_bound(k) for k in range(self.count)]
        kept = list(range(self.count))
        for first in range(self.count):
            for last in range(self.count - 1, first, -1):
                if first not in kept or last not in kept or labels[first] != labels[last]:
                    continue
                rest = [k for k in kept if not first < k <= last]
                left = [labels[k] for k in rest]
                found = Counter(left)
                if (
                    all(found[label] >= n for label, n in enough.items())
                    and pairs == set(itertools.pairwise(left))
                    and not any(bound[first + 1 : last + 1])
                ):
                    kept = rest
                    break
        return kept

    def _is_bound(self, layer: int) -> bool:
        """Whether operators beyond all layers read what a layer makes, ends of the graph apart;
        of the last layer they may.
        """
        end = self.start + self.count * self.period
        if layer == self.count - 1:
            return False
        for index in self._layer(layer):
            for slot, name in enumerate(self.chain.graph.ops[index].outputs):
                for reader in self.chain.read.get(name, ()):
                    if reader >= end and not self._all_end(index, slot, reader):
                        return True
        return False

    def _all_end(self, index: int, slot: int, reader: int) -> bool:
        """Whether a reader is an end of the graph, such as every layer has."""
        ops = self.chain.graph.ops
        kind, offset = ops[reader].kind, (index - self.start) % self.period
        if ops[reader].name not in self.chain.ends:
            return False
        own = [ops[self._layer(k)[offset]].outputs[slot] for k in range(self.count)]
        return all(
            any(ops[r].kind == kind and ops[r].name in self.chain.ends for r in self.chain.read[n])
            for n in own
        )

    def replacements(self, kept: list[int]) -> dict[str, str]:
        """For every operator that goes, by name: the one that stands for it."""
        ops = self.chain.graph.ops
        out: dict[str, str] = {}
        for layer in range(self.count):
            if layer not in kept:
                before = max(k for k in kept if k < layer)
                pairs = zip(self._layer(layer), self._layer(before), strict=True)
                out.update({ops[i].name: ops[j].name for i, j in pairs})
        return out


def _look(op: Op, graph: OpGraph) -> Hashable:
    """Equal for operators that do the same with tensors of the same dims."""
    named = [graph.tensors[n] if n else None for n in (*op.inputs, *op.outputs)]
    return (
        op.kind,
        tuple(sorted(op.attributes.items())),
        len(op.inputs),
        tuple((t.dims, t.dtype, t.role, t.stored_permutation) if t else None for t in named),
        tuple(_look(part, graph) for part in op.parts),
    )


def _labels(plan: Plan) -> Iterator[Hashable]:
    """For every operator what was decided of it and of the tensors that it touches."""
    tensors: dict[str, list[Hashable]] = {}
    for t in plan.tensors:
        tensors.setdefault(t.name, []).append((t.role, t.layout, t.used, t.gradient))
    again = set(plan.recomputed)
    made = {
        name: layout
        for op, planned in zip(plan.graph.ops, plan.operators, strict=True)
        for name, layout in zip(op.outputs, planned.outputs, strict=False)
    }
    sent: dict[str, list[Hashable]] = {}
    for item in plan.collectives:
        content = replace(item, tensor="", operator="", time_s=0.0, nbytes=0.0)
        sent.setdefault(item.operator or item.tensor, []).append(content)
    for op, planned in zip(plan.graph.ops, plan.operators, strict=True):
        names = (*op.inputs, *op.outputs)
        yield (
            planned.stage,
            planned.split,
            planned.inputs,
            planned.outputs,
            tuple((tuple(tensors.get(n, ())), n in again, made.get(n)) for n in names),
            tuple(tuple(sent.get(n, ())) for n in (op.name, *names)),
        )
