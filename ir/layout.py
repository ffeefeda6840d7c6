"""Layouts: how one tensor is spread over a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


class LayoutError(ValueError):
    """A layout that the tensor or the mesh does not allow."""


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """How one tensor is spread over a mesh whose axes are numbered outermost first.

    >>> str(Layout(((0,), ()), (1,)))
    '[0, -] +1'
    """

    dims: tuple[tuple[int, ...], ...]
    """Mesh axes that split each dimension, outermost first; `()` leaves it whole. In the midst of a
    redistribution an axis may split each of n pieces of a dimension: `-n` stands for those.
    """
    partial: tuple[int, ...] = ()
    """Axes over which every device holds a term of a sum, ascending."""

    @property
    def split_axes(self) -> tuple[int, ...]:
        return tuple(axis for dim in self.dims for axis in dim if axis >= 0)

    def shards(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Number of pieces of each dimension, given the sizes of the mesh axes."""
        return tuple(math.prod(sizes[a] for a in dim if a >= 0) for dim in self.dims)

    def local_dims(self, dims: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
        """Dims of the largest shard."""
        return tuple(-(-d // n) for d, n in zip(dims, self.shards(sizes), strict=True))

    def named(self, names: Sequence[str]) -> str:
        """Text with the names of the axes, e.g. `[server, -] +card`."""
        body = ", ".join(
            "*".join(names[a] if a >= 0 else f"/{-a}" for a in dim) or "-" for dim in self.dims
        )
        tail = " +" + "*".join(names[a] for a in self.partial) if self.partial else ""
        return f"[{body}]{tail}"

    def __str__(self) -> str:
        return self.named([str(i) for i in range(1 + max((*self.split_axes, *self.partial, 0)))])


def replicated(rank: int) -> Layout:
    """The layout that gives every device the whole tensor."""
    return Layout(((),) * rank)


def check_layout(layout: Layout, dims: Sequence[int], sizes: Sequence[int]) -> None:
    """Raise `LayoutError` unless the layout is one of a tensor with these dims on this mesh.

    Every shard must hold at least one element of the dimension that it splits.
    """
    if len(layout.dims) != len(dims):
        raise LayoutError(
            f"layout {layout} has {len(layout.dims)} dimensions, "
            f"the tensor {tuple(dims)} has {len(dims)}"
        )
    used = (*(axis for dim in layout.dims for axis in dim), *layout.partial)
    if len(set(used)) != len(used):
        raise LayoutError(f"layout {layout} uses a mesh axis twice")
    if used and (min(used) < 0 or max(used) >= len(sizes)):
        raise LayoutError(
            f"layout {layout} names an axis that the mesh of {len(sizes)} axes does not have"
        )
    for index, (dim, shards) in enumerate(zip(dims, layout.shards(sizes), strict=True)):
        if shards > max(dim, 1):
            raise LayoutError(
                f"dimension {index} of size {dim} does not split {shards} ways\n"
                f"  at:  layout {layout}"
            )
