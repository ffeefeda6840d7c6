"""The mesh of a plan as a DeviceMesh, and layouts as placements on it.

DTensor splits a dimension by the mesh's axes in their order, so the DeviceMesh takes the order of
axes that expresses most layouts; in the rest the order of splitting is said explicitly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta

from executors.placement import Region, coordinates, region_of
from ir.layout import Layout
from ir.plan import NamedLayout, Plan
from topology.mesh import Mesh

_MOST_AXES = 6
"""Orders of more axes are not tried."""


@dataclass(slots=True)
class Grid:
    """A plan's mesh in a running job. Axes are numbered as in the plan."""

    mesh: Mesh
    order: tuple[int, ...]
    """The plan's axes in the order of the DeviceMesh."""
    devices: Any
    """The DeviceMesh."""
    rank: int
    groups: Mapping[frozenset[int], Any]
    """For each set of axes the mesh of one dimension over them, its ranks in the plan's order."""
    place: tuple[int, ...] = field(init=False)
    """Coordinates of this rank."""

    def __post_init__(self) -> None:
        self.place = coordinates(self.mesh)[self.rank]

    def spec(self, dims: Sequence[int], dtype: Any, layout: Layout) -> Any:
        """DTensor's form of a layout."""
        where: dict[int, Any] = {a: Shard(i) for i, d in enumerate(layout.dims) for a in d}
        where |= {a: Partial() for a in layout.partial}
        meta = TensorMeta(torch.Size(dims), _strides(dims), dtype)
        entries = [
            ShardOrderEntry(tensor_dim=i, mesh_dims=tuple(self.order.index(a) for a in axes))
            for i, axes in enumerate(layout.dims)
            if axes
        ]
        placements = tuple(where.get(a, Replicate()) for a in self.order)
        return DTensorSpec(self.devices, placements, tensor_meta=meta, shard_order=tuple(entries))

    def wrapped(self, local: Any, dims: Sequence[int], layout: Layout) -> Any:
        """A DTensor of the part that this device has."""
        local = local.detach() if local.requires_grad else local
        return DTensor(local, self.spec(dims, local.dtype, layout), requires_grad=False)

    def layout_of(self, tensor: Any) -> Layout | None:
        """The layout of a DTensor; None if no plan has such a one."""
        spec = tensor._spec  # noqa: SLF001
        dims: list[tuple[int, ...]] = [()] * tensor.ndim
        for entry in spec.shard_order or ():
            dims[entry.tensor_dim] = tuple(self.order[i] for i in entry.mesh_dims)
        partial = []
        for axis, placement in zip(self.order, spec.placements, strict=True):
            if type(placement) is Partial and placement.reduce_op == "sum":
                partial.append(axis)
            elif type(placement) is Shard:
                if axis not in dims[placement.dim]:
                    return None
            elif type(placement) is not Replicate:
                return None
        return Layout(tuple(dims), tuple(sorted(partial)))

    def in_order(self, layout: Layout) -> bool:
        """Whether DTensor splits every dimension in the order of the layout by itself."""
        places = ([self.order.index(a) for a in dim] for dim in layout.dims)
        return all(each == sorted(each) for each in places)

    def region(self, dims: Sequence[int], layout: Layout) -> Region:
        """Indices of the part that this device has."""
        return region_of(dims, layout, self.mesh.sizes, self.place)

    def part_of(self, tensor: Any, layout: Layout) -> Any:
        """This rank's part of a tensor that it has whole; of a sum the first rank has it all."""
        region = self.region(tensor.shape, layout)
        index = tuple(slice(int(r[0]), int(r[-1]) + 1) if len(r) else slice(0, 0) for r in region)
        local = tensor[index].contiguous()
        return torch.zeros_like(local) if any(self.place[a] for a in layout.partial) else local

    def local_dims(self, dims: Sequence[int], layout: Layout) -> tuple[int, ...]:
        return tuple(len(each) for each in self.region(dims, layout))

    def size(self, axes: Iterable[int]) -> int:
        return math.prod(self.mesh.sizes[a] for a in axes)

    def text(self, layout: Layout | None) -> str:
        """A layout with the names of the axes."""
        if layout is None:
            return "a layout that no plan has"
        return layout.named([axis.name for axis in self.mesh.axes])


def _strides(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(dims[i + 1 :]) for i in range(len(dims)))


_PART = "part of the machine"


def grid_of(plan: Plan, mesh: Mesh, rank: int, device: str = "cpu", parts: int = 1) -> Grid:
    """The grid of a plan, or of the part of the machine that a rank is in; a process group must be
    running.

    Groups of several axes are parts of a mesh in the plan's order: torch numbers the ranks of a
    group upwards, so that one which follows another order would put pieces in wrong places.
    """
    order = best_order(plan)
    names = tuple(axis.name for axis in mesh.axes)
    place = rank % mesh.size
    plain = _devices(device, parts, mesh.sizes, names)
    groups = dict(_groups(plain, names))
    if order == tuple(range(len(names))):
        return Grid(mesh, order, plain, place, groups)
    turned = _devices(device, parts, mesh.sizes, names, order)
    return Grid(mesh, order, turned, place, groups)


def _devices(
    device: str, parts: int, sizes: Sequence[int], names: Sequence[str], order: Sequence[int] = ()
) -> Any:
    """The mesh of the part of the machine that this rank is in, its axes in some order."""
    order = order or range(len(names))
    ways = tuple(names[a] for a in order)
    ranks = torch.arange(parts * math.prod(sizes)).reshape(parts, *sizes)
    ranks = ranks.permute(0, *(a + 1 for a in order))
    if parts == 1:
        return DeviceMesh(device, ranks[0], mesh_dim_names=ways)
    every = DeviceMesh(device, ranks, mesh_dim_names=(_PART, *ways))
    return every[ways[0] if len(ways) == 1 else ways]


def _groups(devices: Any, names: Sequence[str]) -> Iterator[tuple[frozenset[int], Any]]:
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(range(len(names)), count):
            part = devices[tuple(names[a] for a in chosen)]
            yield frozenset(chosen), part._flatten() if count > 1 else part  # noqa: SLF001


def best_order(plan: Plan) -> tuple[int, ...]:
    """The order of axes in which most layouts split their dimensions; the plan's own if equal."""
    names = [name for name, _, _ in plan.mesh]
    every = tuple(range(len(names)))
    if len(every) > _MOST_AXES:
        return every
    counts: dict[tuple[int, ...], int] = {}
    for layout in _layouts(plan):
        for dim in layout.dims:
            axes = tuple(names.index(a) for a in dim if a in names)
            if len(axes) > 1:
                counts[axes] = counts.get(axes, 0) + 1

    def lost(order: tuple[int, ...]) -> int:
        return sum(n for axes, n in counts.items() if [a for a in order if a in axes] != [*axes])

    return min(itertools.permutations(every), key=lost)


def _layouts(plan: Plan) -> Iterator[NamedLayout]:
    for op in plan.operators:
        yield from (x for x in (*op.inputs, *op.outputs) if x is not None)
    for tensor in plan.tensors:
        yield tensor.layout
    for item in plan.collectives:
        yield from (x for x in (item.before, item.after) if x is not None)
