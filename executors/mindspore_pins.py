"""Operators that do nothing but have a layout, where MindSpore has none to take the plan's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ir.plan import NamedLayout, Plan

FOLLOWING = frozenset({"Reshape", "Flatten"})
"""Operators that take no strategy: MindSpore lays them out as their neighbours."""


class Pins:
    """Pins of a plan, at tensors with several readers, at both ends of a reshape, and where a
    composite reads something.

    MindSpore redistributes straight from the operator that makes a tensor to each primitive that
    reads it.
    """

    def __init__(self, plan: Plan, *, pinned: bool) -> None:
        self.pinned = pinned
        self.axes = [(name, size) for name, size, _ in plan.mesh if size > 1]
        self.layouts = {t.name: t.layout for t in plan.tensors if t.role == "shared"}
        self.names: dict[str, str] = {}
        """What is read in place of a tensor from here on."""
        self.made: dict[str, str] = {}
        """For each new tensor the one that it is."""

    def shared(self, tensor: str) -> Iterator[dict[str, Any]]:
        """A pin at a tensor with several readers."""
        yield from self.at(tensor, self.layouts.get(tensor), self.names)

    def at(
        self, tensor: str, layout: NamedLayout | None, names: dict[str, str]
    ) -> Iterator[dict[str, Any]]:
        """A pin behind a tensor, which `names` then has in its place."""
        if layout is None or not self.pinned:
            return
        name = f"{tensor}/pin{len(self.made)}"
        self.made[name] = tensor
        matrix, tensor_map = self._placed(layout)
        yield {
            "name": name,
            "kind": "Pin",
            "inputs": [names.get(tensor, tensor)],
            "outputs": [name],
            "attributes": {},
            "cuts": [None],
            "matrix": matrix,
            "map": tensor_map,
        }
        names[tensor] = name

    def _placed(self, layout: NamedLayout) -> tuple[list[int], list[list[int]]]:
        """A device matrix, and for each dimension the places in it of the axes that cut it.

        Neighbours that stand together are one axis, as in the matrix that cut counts give.
        """
        where = {name: (d, i) for d, dim in enumerate(layout.dims) for i, name in enumerate(dim)}
        matrix: list[int] = []
        place: dict[str, int] = {}
        before: tuple[int, int] | None = None
        for index, (name, size) in enumerate(self.axes):
            own = where.get(name)
            follows = own == (before and (before[0], before[1] + 1))
            if index and follows:
                matrix[-1] *= size
            else:
                place[name] = len(matrix)
                matrix.append(size)
            before = own
        dims = [[place[name] for name in dim if name in place] for dim in layout.dims]
        assert math.prod(matrix) == math.prod(size for _, size in self.axes)
        return matrix, dims
