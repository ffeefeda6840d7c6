"""Which device holds which part of a tensor, and arrays that lie on every device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ir.layout import Layout
from topology.mesh import Mesh

Array: TypeAlias = NDArray[Any]
Box: TypeAlias = tuple[tuple[int, int], ...]
"""First and end of every dimension."""
Region: TypeAlias = tuple[NDArray[np.intp], ...]
"""The indices of every dimension, ascending."""


def coordinates(mesh: Mesh) -> list[tuple[int, ...]]:
    """Place of every rank on the mesh: ranks are row-major."""
    return list(itertools.product(*(range(size) for size in mesh.sizes)))


def box_of(dims: Sequence[int], layout: Layout, sizes: Sequence[int], place: Sequence[int]) -> Box:
    """The part of a tensor at one place; pieces have equal size, the last ones may be short."""
    out = []
    for dim, axes in zip(dims, layout.dims, strict=True):
        piece, count = 0, 1
        for axis in axes:
            piece, count = piece * sizes[axis] + place[axis], count * sizes[axis]
        length = -(-dim // count)
        out.append((min(piece * length, dim), min((piece + 1) * length, dim)))
    return tuple(out)


def region_of(
    dims: Sequence[int], layout: Layout, sizes: Sequence[int], place: Sequence[int]
) -> Region:
    """The part of a tensor at one place, also where an axis splits each of several pieces."""
    whole_dims = tuple(() if min(axes, default=0) < 0 else axes for axes in layout.dims)
    box = box_of(dims, Layout(whole_dims), sizes, place)
    out = [np.arange(first, end) for first, end in box]
    for position, (dim, axes) in enumerate(zip(dims, layout.dims, strict=True)):
        if min(axes, default=0) < 0:
            counts = [sizes[a] if a >= 0 else -a for a in axes]
            every = np.arange(dim).reshape(*counts, -1)
            out[position] = every[tuple(place[a] if a >= 0 else slice(None) for a in axes)].ravel()
    return tuple(out)


def inside(array: Array, box: Box, origin: Box | None = None) -> Array:
    """The part of an array in a box; the array begins at `origin` (whole arrays at 0)."""
    starts = [first for first, _ in origin] if origin else [0] * len(box)
    slices: list[Any] = [slice(f - s, e - s) for (f, e), s in zip(box, starts, strict=True)]
    return array[(*slices, ...)]


@dataclass(frozen=True, slots=True)
class Spread:
    """One tensor on all devices of a mesh."""

    dims: tuple[int, ...]
    layout: Layout
    mesh: Mesh
    shards: tuple[Array, ...]
    """What each rank holds."""

    def box(self, rank: int) -> Box:
        return box_of(self.dims, self.layout, self.mesh.sizes, coordinates(self.mesh)[rank])

    @property
    def boxes(self) -> list[Box]:
        places = coordinates(self.mesh)
        return [box_of(self.dims, self.layout, self.mesh.sizes, place) for place in places]


def spread(array: Array, layout: Layout, mesh: Mesh) -> Spread:
    """Cut an array: every device takes its part. A sum lies with the first device of its axes."""
    shards = []
    for place in coordinates(mesh):
        own = inside(array, box_of(array.shape, layout, mesh.sizes, place))
        first = all(place[axis] == 0 for axis in layout.partial)
        shards.append(own.copy() if first else np.zeros_like(own))
    return Spread(array.shape, layout, mesh, tuple(shards))


def whole(tensor: Spread) -> Array:
    """The array that the devices hold together; terms of sums are added."""
    out = np.zeros(tensor.dims, dtype=tensor.shards[0].dtype)
    split = {*tensor.layout.split_axes, *tensor.layout.partial}
    for place, box, shard in zip(
        coordinates(tensor.mesh), tensor.boxes, tensor.shards, strict=True
    ):
        if all(place[a] == 0 for a in range(len(place)) if a not in split):
            part = inside(out, box)
            if tensor.layout.partial:
                part += shard
            else:
                part[...] = shard
    return out


def disagreement(tensor: Spread) -> float:
    """Largest absolute difference between devices that should hold the same; NaN counts as inf."""
    split = {*tensor.layout.split_axes, *tensor.layout.partial}
    first: dict[tuple[int, ...], Array] = {}
    worst = 0.0
    for place, shard in zip(coordinates(tensor.mesh), tensor.shards, strict=True):
        key = tuple(c for a, c in enumerate(place) if a in split)
        worst = max(worst, difference(first.setdefault(key, shard), shard))
    return worst


def difference(one: Array, other: Array) -> float:
    """Largest absolute difference; infinite where shapes, or places of NaN, differ."""
    if one.shape != other.shape:
        return math.inf
    if one is other or not one.size:
        return 0.0
    if one.dtype.kind not in "fc":
        return 0.0 if np.array_equal(one, other) else math.inf
    equal = (one == other) | (np.isnan(one) & np.isnan(other))
    if equal.all():
        return 0.0
    with np.errstate(invalid="ignore"):
        worst = float(np.max(np.where(equal, 0.0, np.abs(one - other))))
    return math.inf if math.isnan(worst) else worst
