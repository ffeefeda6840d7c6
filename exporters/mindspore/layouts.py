"""Layouts of the parameters of a plan, as MindSpore stores them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from exporters.mindspore.records import ParameterLayout, standardise
from ir.graph import Tensor
from ir.mindspore_forms.primitives import as_stored
from ir.mindspore_forms.readers import Reader, file_name
from ir.violations import Violation

Axes = tuple[int, ...]
"""Numbers of mesh axes, outermost first."""


@dataclass(frozen=True, slots=True)
class RestingParameter:
    """One parameter: as it rests, and as the operator uses it that reads it first."""

    tensor: Tensor
    reader: Reader

    used: tuple[Axes, ...]
    """Axes of more than one device that split each dimension in the operator."""

    rest: tuple[Axes, ...]
    """Axes of more than one device that split each dimension at rest."""

    def layout(self) -> ParameterLayout:
        """The layout in the file; `violations` must be empty."""
        sizes, entries, sharded = self.reader.sizes, self._entries(), self._sharded
        reverse = {axes: len(entries) - 1 - index for index, axes in enumerate(entries)}
        matrix = tuple(math.prod(sizes[axis] for axis in axes) for axes in entries)
        tensor_map = tuple(reverse.get(axes, -1) for axes in self.used)
        plain_matrix, plain_map = standardise(matrix, self._held(tensor_map))
        if sharded and _is_misread(plain_matrix, plain_map):
            plain_matrix = (1, *plain_matrix)
        return ParameterLayout(
            name=file_name(self.tensor),
            device_matrix=plain_matrix,
            tensor_map=plain_map,
            tensor_shape=self._held(self.tensor.dims),
            opt_weight_shard_step=math.prod(sizes[sharded[-1] + 1 :]) if sharded else 0,
            opt_weight_shard_size=math.prod(sizes[a] for a in sharded) if sharded else 0,
        )

    def violations(self) -> Iterator[Violation]:
        """What a layout of MindSpore cannot express."""
        place = f"parameter {file_name(self.tensor)!r}"
        for dim, axes in enumerate(self.used):
            if axes and axes not in self._entries():
                what = f"dimension {dim} is split by mesh axes that are not neighbours"
                yield Violation(what, place, "split it over neighbouring axes")
        sharded = self._sharded
        if self.rest != self.used and not sharded:
            what = "it rests in another layout than the operator uses that reads it first"
            yield Violation(what, place, "let it rest as it is used")
        elif sharded and sharded != self._repeated[-len(sharded) :]:
            what = (
                "the optimizer's share does not begin with the innermost devices that hold copies"
            )
            yield Violation(what, place, "split over these first")

    def _held(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """Values of the dimensions that the network's parameter has, in the order of the file: the
        slopes of `PReLU` are a vector.
        """
        if self.reader.form.name == "PReLU":
            return tuple(v for v, d in zip(values, self.tensor.dims, strict=True) if d > 1)
        return as_stored(values, self.tensor)

    @property
    def _sharded(self) -> Axes:
        """Axes over which the optimizer's share splits the first dimension of the file further."""
        if not self.used:
            return ()
        order = self.tensor.stored_permutation
        first = order.index(0) if order else 0
        share = self.rest[first][len(self.used[first]) :]
        shared = list(self.used)
        shared[first] = (*shared[first], *share)
        return share if self.rest == tuple(shared) else ()

    @property
    def _repeated(self) -> Axes:
        """Axes along which the operator's devices hold copies."""
        taken = {axis for axes in self.used for axis in axes}
        return tuple(axis for axis in self.reader.wide if axis not in taken)

    def _entries(self) -> tuple[Axes, ...]:
        """Axes of each entry of the device matrix, outermost first.

        They are the reader's, except that the optimizer's axes stand apart and
        that neighbours which split the same dimension are one.
        """
        dim_of = {axis: dim for dim, axes in enumerate(self.used) for axis in axes}
        positions, sharded = self.reader.positions, self._sharded

        def entry(axis: int) -> tuple[str, int]:
            if axis in sharded:
                return "optimizer", 0
            return ("split", dim_of[axis]) if axis in dim_of else ("whole", positions[axis])

        return tuple(tuple(axes) for _, axes in groupby(self.reader.wide, entry))


def _is_misread(matrix: tuple[int, ...], tensor_map: tuple[int, ...]) -> bool:
    """Whether MindSpore's checkpoint tools take the cuts of a shared parameter for others.

    Where the outermost axis alone holds copies they take the axes inside it to cut the dimensions
    in their order. An axis of size 1 in front leads them around that.

    Source: MindSpore 2.10.0, `parallel/_tensor.py`, _construct_tensor_layout_for_opt_shard.
    """
    split = [axis for axis in tensor_map if axis >= 0]
    outermost_alone = len(split) == len(matrix) - 1 and len(matrix) - 1 not in split
    return outermost_alone and split != sorted(split, reverse=True)
