"""Which part of every parameter each rank keeps under a plan, named and turned as in the files."""

from __future__ import annotations

from typing import TypeVar

from ir.plan import Plan
from ir.slicing import Grid, Slicing

_T = TypeVar("_T")


def plan_slicing(plan: Plan, origin: str = "the plan") -> Slicing:
    """The parameters of a plan at rest, by their names in the model's files."""
    sizes = tuple(size for _, size, _ in plan.mesh)
    axis = {name: index for index, (name, _, _) in enumerate(plan.mesh)}
    grids: dict[str, tuple[Grid, ...]] = {}
    dims: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    for planned in plan.parameters:
        tensor = plan.graph.tensors[planned.name]
        name, order = tensor.source or tensor.name, tensor.stored_permutation
        cuts = tuple(tuple(axis[each] for each in axes) for axes in planned.layout.dims)
        grids[name] = (Grid(sizes, _stored(cuts, order)),)
        dims[name], dtypes[name] = _stored(planned.dims, order), planned.dtype
    return Slicing(origin, plan.devices, grids, dims, dtypes)


def _stored(values: tuple[_T, ...], order: tuple[int, ...]) -> tuple[_T, ...]:
    """Values of the dimensions in the order of the file."""
    return tuple(values[order.index(i)] for i in range(len(order))) if order else values
