"""Gathers and scatters: a split table is looked up under a mask, positions count from where a part
begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import autograd.numpy as np

from executors.placement import Array, coordinates, region_of
from executors.semantics.indexing import taken
from executors.spmd import Algorithm, OperatorRun, Shards
from ir.ops import OpView


def _gather(task: OperatorRun) -> Shards:
    """Rows that another device has are zeros here."""
    data, axis = task.operand(0), task.int("axis")
    if not data.layout.dims[axis]:
        return task.local()
    out = []
    for rank in task.ranks:
        table, rows = data.shards[rank], task.operand(1).shards[rank]
        mine, wanted = _own_rows(rows, data.dims[axis], data.box(rank)[axis])
        if table.shape[axis]:
            found = taken(table, wanted, axis)
            shape = [1] * found.ndim
            shape[axis : axis + rows.ndim] = rows.shape
            out.append([np.where(mine.reshape(shape), found, np.zeros_like(found))])
        else:
            out.append([np.zeros(task.local_dims(0, rank), dtype=table.dtype)])
    return out


def _own_rows(rows: Array, size: int, part: tuple[int, int]) -> tuple[Array, Array]:
    """Which indices mean a row of the part, and where in the part; 0 for all others."""
    wanted = np.where(rows < 0, rows + size, rows) - part[0]
    mine = (wanted >= 0) & (wanted < part[1] - part[0])
    return mine, np.where(mine, wanted, 0)


def _one_hot(task: OperatorRun) -> Shards:
    """Of a new dimension that is split every device keeps its own elements."""
    axis = task.int("axis", len(task.operand(0).dims))
    if not task.layouts[0].dims[axis]:
        return task.local()
    out = []
    for rank, place in enumerate(coordinates(task.mesh)):
        own = region_of(task.results[0].dims, task.layouts[0], task.mesh.sizes, place)[axis]
        dims = list(task.local_dims(0, rank))
        dims[axis] = task.results[0].dims[axis]
        (found,) = task.runner.run(task.op, task.parts(rank), task.results, [tuple(dims)])
        out.append([np.take(found, own, axis=axis)])
    return out


def _gather_nd(task: OperatorRun) -> Shards:
    """A coordinate that is the position itself counts from where the part begins."""
    pairs = OpView(task.op, task.graph).ints("identity_coordinates")
    batch = task.int("batch_dims")
    data, indices = task.operand(0), task.operand(1)
    out = []
    for rank in task.ranks:
        rows = indices.shards[rank].copy()
        for dim in pairs[::2]:
            rows[..., dim - batch] -= data.box(rank)[dim][0]
        out.append(task.on(rank, task.op, [data.shards[rank], rows]))
    return out


def _scatter_elements(task: OperatorRun) -> Shards:
    """Devices with different updates add them to zeros, but for the first, which has the data."""
    return [
        task.on(rank, task.op, [data, *(task.operand(i).shards[rank] for i in (1, 2))])
        for rank, data in enumerate(_data_once(task))
    ]


def _data_once(task: OperatorRun) -> list[Array]:
    """The data of every rank, zeros for all but the first of those that share out the updates."""
    data, indices = task.operand(0), task.operand(1)
    shared = {a for m in data.layout.dims for a in m}
    axes = [a for m in indices.layout.dims for a in m if a not in shared]
    places = coordinates(task.mesh)
    return [
        part if all(place[a] == 0 for a in axes) else np.zeros_like(part)
        for part, place in zip(data.shards, places, strict=True)
    ]


def _scatter_nd(task: OperatorRun) -> Shards:
    """Updates of rows that another device has go to a row behind the part, which is cut off."""
    data, indices = task.operand(0), task.operand(1)
    depth = indices.dims[-1]
    cut = [d for d in range(depth) if data.layout.dims[d]]
    out = []
    for rank, part in enumerate(_data_once(task)):
        rows, values = indices.shards[rank].copy(), task.operand(2).shards[rank]
        mine = np.ones(rows.shape[:-1], dtype=bool)
        for dim in cut:
            own, rows[..., dim] = _own_rows(rows[..., dim], data.dims[dim], data.box(rank)[dim])
            mine &= own
        wide = part
        for dim in cut[:1]:
            rows[..., dim] = np.where(mine, rows[..., dim], part.shape[dim])
            behind = np.zeros([1 if d == dim else s for d, s in enumerate(part.shape)], part.dtype)
            wide = np.concatenate([part, behind], axis=dim)
        found = task.runner.run(task.op, [wide, rows, values], task.results, [wide.shape])
        out.append([found[0][tuple(slice(0, size) for size in part.shape)]])
    return out


INDEXING: Mapping[str, Algorithm] = MappingProxyType(
    {
        "Gather": _gather,
        "GatherND": _gather_nd,
        "OneHot": _one_hot,
        "ScatterElements": _scatter_elements,
        "ScatterND": _scatter_nd,
    }
)
