"""Which part of every parameter each rank keeps under a plan, named and turned as in the files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from ir.dialects import dialect_named
from ir.plan import Plan, PlannedTensor
from ir.plan_stages import MeshAxes, first_rank, planned_in, stage_mesh
from ir.slicing import Grid, Slicing

_T = TypeVar("_T")


def plan_slicing(plan: Plan, origin: str = "the plan") -> Slicing:
    """The parameters of a plan at rest, by their names in the model's files. Some dialects
    shard the weight wherever they shard its optimizer state.
    """
    shares_weights = dialect_named(plan.space.dialect).shares_weights
    grids: dict[str, tuple[Grid, ...]] = {}
    dims: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    states: dict[str, tuple[Grid, ...]] = {}
    for planned in plan.parameters:
        tensor = plan.graph.tensors[planned.name]
        name, order = tensor.source or tensor.name, tensor.stored_permutation
        found: dict[int, Grid] = {}
        parts: dict[int, Grid] = {}
        for stage, first, mesh in _homes(plan, planned):
            held = planned_in(plan, planned, stage)
            sizes = tuple(size for _, size, _ in mesh)
            axis = {name: index for index, (name, _, _) in enumerate(mesh)}
            states_at = held.states or held.layout
            rest = states_at if shares_weights else held.layout
            for layout, into in ((rest, found), (states_at, parts)):
                cuts = tuple(tuple(axis[each] for each in axes) for axes in layout.dims)
                into.setdefault(first, Grid(sizes, _stored(cuts, order), first))
        grids[name] = tuple(found[first] for first in sorted(found))
        if parts != found:
            states[name] = tuple(parts[first] for first in sorted(parts))
        dims[name], dtypes[name] = _stored(planned.dims, order), planned.dtype
    return Slicing(origin, plan.devices, grids, dims, dtypes, states)


def _homes(plan: Plan, planned: PlannedTensor) -> Iterator[tuple[int, int, MeshAxes]]:
    """Stage, first rank and mesh wherever a parameter is held."""
    stages = [s for shared in plan.pipeline.shared if shared.tensor == planned.name
              for s in shared.stages]  # fmt: skip
    for stage in sorted({planned.stage, *stages}):
        yield stage, first_rank(plan, stage), stage_mesh(plan, stage)


def _stored(values: tuple[_T, ...], order: tuple[int, ...]) -> tuple[_T, ...]:
    """Values of the dimensions in the order of the file."""
    return tuple(values[order.index(i)] for i in range(len(order))) if order else values
