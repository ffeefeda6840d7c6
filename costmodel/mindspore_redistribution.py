"""What MindSpore's own redistribution between two layouts of a tensor costs.

The gradient travels back through the same operators: an all-to-all stays one, an all-gather becomes
a reduce-scatter of the same bytes, a slice costs nothing.
Source: docs/costmodel.md, section Redistribution.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, CollectiveModel
from costmodel.mindspore_inference import (
    NOWHERE,
    Action,
    Pairs,
    as_tuple,
    layout_of,
    moves,
    paired,
)
from costmodel.redistribution import Shardable, Step
from ir.dtypes import dtype_bytes
from ir.layout import Layout
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]
Coefficients: TypeAlias = tuple[FloatArray, FloatArray]
"""Latency in seconds, and seconds per byte of the whole tensor, of every pair."""

_Scaled: TypeAlias = tuple[Collective | None, tuple[int, ...], float, Layout]
"""Kind, mesh axes, bytes as a share of the whole tensor, and the layout after it."""


@dataclass(slots=True)
class MindsporeRedistribution:
    """Times of redistribution as MindSpore carries it out. Layouts here are never partial."""

    model: CollectiveModel
    mesh: Mesh
    all_to_all: bool
    _coefficients: dict[tuple[tuple[Layout, ...], tuple[Layout, ...]], Coefficients] = field(
        default_factory=dict
    )
    _of_kind: dict[Collective, Coefficients] = field(default_factory=dict)
    _sequences: dict[tuple[Layout, Layout], tuple[_Scaled, ...]] = field(default_factory=dict)

    def pair_time_s(
        self, tensor: Shardable, sources: Sequence[Layout], targets: Sequence[Layout]
    ) -> FloatArray:
        """Seconds from each source to each target, forward, shape (len(sources), len(targets))."""
        key = (as_tuple(sources), as_tuple(targets))
        if key not in self._coefficients:
            self._coefficients[key] = self._all_coefficients(sources, targets)
        latency, per_byte = self._coefficients[key]
        return latency * tensor.latency_scale + per_byte * (
            math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        )

    def _all_coefficients(
        self, sources: Sequence[Layout], targets: Sequence[Layout]
    ) -> Coefficients:
        pairs = paired(sources, targets, self.mesh.sizes)
        latency, per_byte = np.zeros(pairs.held.shape[1]), np.zeros(pairs.held.shape[1])
        for kind, axis, share, concerned in self._collectives(pairs):
            if kind is not None:
                each_latency, each_byte = self._tables(kind)
                last = pairs.last[axis, concerned]
                latency[concerned] += each_latency[axis, last]
                per_byte[concerned] += each_byte[axis, last] * share
        shape = (len(sources), len(targets))
        return latency.reshape(shape), per_byte.reshape(shape)

    def _collectives(
        self, pairs: Pairs
    ) -> Iterator[tuple[Collective | None, int, FloatArray, NDArray[np.intp]]]:
        """Kind, first axis, and for the pairs concerned: bytes as a share of the whole tensor,
        and which pairs these are.

        The bytes are those of the local tensor in an all-to-all, of the result in an all-gather
        and in a slice.
        """
        cuts = np.cumprod((1, *self.mesh.sizes))
        sizes = cuts[pairs.last + 1] // cuts[: len(cuts) - 1, None]
        share = 1.0 / np.where(pairs.held == NOWHERE, 1, sizes).prod(axis=0)
        for move in moves(pairs.held, pairs.wanted, exchange=self.all_to_all):
            concerned, size = move.pairs, sizes[move.axis, move.pairs]
            if move.action is Action.SLICE:
                share[concerned] /= size
                yield None, move.axis, share[concerned], concerned
            elif move.action is Action.GATHER:
                share[concerned] *= size
                yield Collective.ALL_GATHER, move.axis, share[concerned], concerned
            else:
                yield Collective.ALL_TO_ALL, move.axis, share[concerned], concerned

    def _tables(self, kind: Collective) -> Coefficients:
        """Coefficients of a group by its first and its last axis, shape (axes, axes)."""
        if kind not in self._of_kind:
            count = len(self.mesh.axes)
            tables = np.zeros((2, count, count))
            for first, last in itertools.combinations_with_replacement(range(count), 2):
                tables[:, first, last] = self.model.coefficients(
                    kind, tuple(range(first, last + 1))
                )
            self._of_kind[kind] = (tables[0], tables[1])
        return self._of_kind[kind]

    def steps(self, tensor: Shardable, source: Layout, target: Layout) -> tuple[Step, ...]:
        """The moves, in order."""
        elements = math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        return tuple(
            Step(
                kind,
                axes,
                share * elements,
                float(self.model.time_s(kind, share * elements, axes, tensor.latency_scale))
                if kind
                else 0.0,
                reached,
            )
            for kind, axes, share, reached in self._sequence(source, target)
        )

    def _sequence(self, source: Layout, target: Layout) -> tuple[_Scaled, ...]:
        if (source, target) not in self._sequences:
            self._sequences[source, target] = tuple(self._inferred(source, target))
        return self._sequences[source, target]

    def _inferred(self, source: Layout, target: Layout) -> Iterator[_Scaled]:
        pairs = paired([source], [target], self.mesh.sizes)
        last = pairs.last[:, 0]
        for kind, axis, share, _ in self._collectives(pairs):
            reached = layout_of(pairs.held[:, 0], last, len(source.dims), self.mesh.sizes)
            yield kind, tuple(range(axis, int(last[axis]) + 1)), float(share[0]), reached
