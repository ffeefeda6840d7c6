"""What MindSpore's own redistribution between two layouts of a tensor costs.

The gradient travels back through the same operators: an all-to-all stays one, an all-gather becomes
a reduce-scatter of the same bytes, a slice costs nothing.
Source: docs/step.md, section Redistribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import CollectiveModel, CurveTable
from costmodel.mindspore.pairs import Block
from costmodel.mindspore.sequences import Messages, Sequences, sequences_on
from costmodel.redistribution import Shardable, Step
from ir.dtypes import dtype_bytes
from ir.layout import Layout
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Curves:
    """Messages of some sequences with what they cost at any number of bytes."""

    messages: Messages
    table: CurveTable

    def time_s(self, nbytes: float, latency_scale: float) -> FloatArray:
        """Seconds of every sequence for a tensor of so many bytes, shape (sequences,)."""
        known = self.messages
        each = self.table.time_s(known.rows, known.share * nbytes, latency_scale)
        return self._summed(each)

    def tiers_s(self, nbytes: float, latency_scale: float, mesh: Mesh) -> FloatArray:
        """Seconds in which every sequence holds the links of a tier, shape (tiers, sequences)."""
        known = self.messages
        each = self.table.time_s(known.rows, known.share * nbytes, latency_scale)
        crossed = [mesh.tiers_of(axes) for _, axes in known.groups]
        found = []
        for tier in mesh.used_tiers:
            own = np.array([tier in crossed[row] for row in known.rows], dtype=np.float64)
            found.append(self._summed(each * own))
        return np.array(found).reshape(len(found), len(known.of_sequence))

    def _summed(self, each: FloatArray) -> FloatArray:
        """The sum over the messages of every sequence of what each of them takes."""
        found = np.zeros(len(self.messages.of_sequence))
        for column in self.messages.of_sequence.T:
            found += np.where(column < 0, 0.0, each[column])
        return found


@dataclass(slots=True)
class MindsporeRedistribution:
    """Times of redistribution as MindSpore carries it out. Layouts here are never partial."""

    model: CollectiveModel
    mesh: Mesh
    all_to_all: bool
    _sequences: Sequences = field(init=False)
    _curves: _Curves | None = None
    _times: dict[tuple[float, float], FloatArray] = field(default_factory=dict)
    _tiers: dict[tuple[float, float], FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sequences = sequences_on(self.mesh.sizes, self.all_to_all)

    def prepare(self, blocks: Iterable[Block]) -> None:
        """Work out at once what `pair_time_s` is asked for later."""
        self._sequences.prepare(blocks)

    def pair_time_s(
        self, tensor: Shardable, sources: Sequence[Layout], targets: Sequence[Layout]
    ) -> FloatArray:
        """Seconds from each source to each target, forward, shape (len(sources), len(targets))."""
        sequences = self._sequences.of_pairs(sources, targets)
        nbytes = math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        return np.asarray(self._time_s(nbytes, tensor.latency_scale)[sequences])

    def pair_tier_s(
        self, tensor: Shardable, sources: Sequence[Layout], targets: Sequence[Layout]
    ) -> FloatArray:
        """Seconds in which each way holds the links of a tier, shape (tiers, len(sources),
        len(targets)).
        """
        sequences = self._sequences.of_pairs(sources, targets)
        nbytes = math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        curves, key = self._priced(), (nbytes, tensor.latency_scale)
        if key not in self._tiers:
            self._tiers[key] = curves.tiers_s(*key, self.mesh)
        return self._tiers[key][:, sequences]

    def _time_s(self, nbytes: float, latency_scale: float) -> FloatArray:
        """Seconds of every sequence for a tensor of so many bytes, shape (sequences,)."""
        curves = self._priced()
        key = (nbytes, latency_scale)
        if key not in self._times:
            self._times[key] = curves.time_s(nbytes, latency_scale)
        return self._times[key]

    def _priced(self) -> _Curves:
        """The curves of all sequences that are known by now."""
        curves, messages = self._curves, self._sequences.messages()
        if curves is None or curves.messages is not messages:
            self._curves = curves = _Curves(messages, self.model.table(messages.groups))
            self._times, self._tiers = {}, {}
        return curves

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
            for kind, axes, share, reached in self._sequences.between(source, target)
        )
