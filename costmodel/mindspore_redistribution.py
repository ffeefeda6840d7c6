"""What MindSpore itself inserts between two layouts of a tensor.

Its inference first splits along axes that are free, then moves an axis from one dimension to
another (as an all-gather followed by a slice unless
all-to-all is switched on), then gathers what the target does not split. The gradient travels
back through the
same operators: an all-gather becomes a reduce-scatter of the same bytes, a slice costs nothing.
Source: docs/costmodel.md, section on MindSpore; rules of its redistribution inference, 2.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, CollectiveModel
from costmodel.redistribution import Shardable, Step
from ir.dtypes import dtype_bytes
from ir.layout import Layout
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(slots=True)
class MindsporeRedistribution:
    """Times of redistribution as MindSpore carries it out. Layouts here are never partial."""

    model: CollectiveModel
    mesh: Mesh
    all_to_all: bool = False
    _coefficients: dict[
        tuple[tuple[Layout, ...], tuple[Layout, ...]], tuple[FloatArray, FloatArray]
    ] = field(default_factory=dict)

    def pair_time_s(
        self, tensor: Shardable, sources: Sequence[Layout], targets: Sequence[Layout]
    ) -> FloatArray:
        """Seconds from each source to each target, forward, shape (len(sources), len(targets))."""
        key = (tuple(sources), tuple(targets))
        if key not in self._coefficients:
            self._coefficients[key] = self._all_coefficients(
                _encoded(sources, self.mesh), _encoded(targets, self.mesh)
            )
        latency, per_byte = self._coefficients[key]
        return latency * tensor.latency_scale + per_byte * (
            math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        )

    def _all_coefficients(
        self, sources: IntArray, targets: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Latency, and seconds per byte of the whole tensor, for all pairs at once.

        Args:
            sources: shape (S, dims, axes), the axes of each dimension in order, then -1.
            targets: shape (T, dims, axes).

        Returns:
            Two arrays of shape (S, T).
        """
        mine, other = sources[:, None], targets[None, :]
        stays = np.logical_and.accumulate((mine == other) & (mine >= 0), axis=-1)
        bits = np.where(mine >= 0, 1 << np.maximum(mine, 0), 0)
        moved = np.where(stays, 0, bits).sum(axis=-1)
        held = np.broadcast_to(_mask(sources)[:, None], moved.shape[:2])
        wanted = np.broadcast_to(_mask(targets)[None, :], moved.shape[:2])
        latency_of, per_byte_of, size_of = self._group_tables()
        share = 1.0 / (size_of[held] * size_of[wanted & ~held])
        latency, per_byte = np.zeros(share.shape), np.zeros(share.shape)
        for dim in range(moved.shape[2]):
            group = moved[:, :, dim] & wanted
            latency += latency_of[group]
            per_byte += per_byte_of[group] * share * (1.0 if self.all_to_all else size_of[group])
        latency_of, per_byte_of, _ = self._group_tables(gather=True)
        for dim in range(moved.shape[2]):
            group = moved[:, :, dim] & ~wanted
            share = share * size_of[group]
            latency += latency_of[group]
            per_byte += per_byte_of[group] * share
        return latency, per_byte

    def _group_tables(self, *, gather: bool = False) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Latency, seconds per byte and size of the group of every set of axes, by bit mask."""
        kind = Collective.ALL_GATHER if gather or not self.all_to_all else Collective.ALL_TO_ALL
        count = len(self.mesh.axes)
        groups = [tuple(a for a in range(count) if mask >> a & 1) for mask in range(1 << count)]
        pairs = [self.model.coefficients(kind, g) if g else (0.0, 0.0) for g in groups]
        sizes = [math.prod(self.mesh.sizes[a] for a in g) for g in groups]
        return (
            np.array([p[0] for p in pairs]),
            np.array([p[1] for p in pairs]),
            np.array(sizes, dtype=np.float64),
        )

    def steps(self, tensor: Shardable, source: Layout, target: Layout) -> tuple[Step, ...]:
        """The moves, in order."""
        elements = math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        out: list[Step] = []
        for kind, axes, share, result in self._infer(source, target):
            nbytes = share * elements
            time_s = (
                float(self.model.time_s(kind, nbytes, axes, tensor.latency_scale)) if kind else 0.0
            )
            out.append(Step(kind, axes, nbytes, time_s, result))
        return tuple(out)

    def _infer(
        self, source: Layout, target: Layout
    ) -> list[tuple[Collective | None, tuple[int, ...], float, Layout]]:
        """Moves with their bytes as a share of the whole tensor."""
        sizes = self.mesh.sizes
        moved = _displaced(source, target)
        held, wanted = set(source.split_axes), set(target.split_axes)
        share = 1.0 / math.prod(sizes[a] for a in held)
        out: list[tuple[Collective | None, tuple[int, ...], float, Layout]] = []
        fresh = tuple(sorted(wanted - held))
        if fresh:
            share /= math.prod(sizes[a] for a in fresh)
            out.append((None, fresh, share, target))
        for axes in _runs([a for a in moved if a in wanted], source):
            size = math.prod(sizes[a] for a in axes)
            if self.all_to_all:
                out.append((Collective.ALL_TO_ALL, axes, share, target))
            else:
                out.append((Collective.ALL_GATHER, axes, share * size, target))
        for axes in _runs([a for a in moved if a not in wanted], source):
            share *= math.prod(sizes[a] for a in axes)
            out.append((Collective.ALL_GATHER, axes, share, target))
        return out


def _encoded(layouts: Sequence[Layout], mesh: Mesh) -> IntArray:
    """Axes of every dimension in order, filled with -1, shape (layouts, dims, axes)."""
    rank = len(layouts[0].dims) if layouts else 0
    out = np.full((len(layouts), rank, len(mesh.axes)), -1, dtype=np.int64)
    for row, layout in enumerate(layouts):
        for dim, axes in enumerate(layout.dims):
            out[row, dim, : len(axes)] = axes
    return out


def _mask(encoded: IntArray) -> IntArray:
    """Bit mask of all axes that split a tensor, shape (layouts,)."""
    return np.asarray(
        np.where(encoded >= 0, 1 << np.maximum(encoded, 0), 0).sum(axis=(1, 2)), dtype=np.int64
    )


def _displaced(source: Layout, target: Layout) -> list[int]:
    """Axes that do not stay where they are, position for position inside each dimension,
    outermost first.
    """
    out: list[int] = []
    for mine, other in zip(source.dims, target.dims, strict=True):
        same = 0
        while same < min(len(mine), len(other)) and mine[same] == other[same]:
            same += 1
        out += mine[same:]
    return out


def _runs(axes: list[int], source: Layout) -> list[tuple[int, ...]]:
    """Axes grouped by the dimension that they split, since one all-gather undoes one dimension."""
    return [group for dim in source.dims if (group := tuple(a for a in dim if a in axes))]
