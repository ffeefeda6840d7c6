"""Gathers and scatters: a split table is looked up and changed under a mask, positions count from
where a part begins.
"""

from __future__ import annotations

from typing import Any

from executors.device import Device, Running, view_of
from ir.semantics.arrays import np


def own_rows(rows: Any, size: int, first: int, count: int) -> tuple[Any, Any]:
    """Which indices mean a row of the part, and where in the part; 0 for all others."""
    wanted = np.where(rows < 0, rows + size, rows) - first
    mine = (wanted >= 0) & (wanted < count)
    return mine, np.where(mine, wanted, 0)


def gather(device: Device) -> Running:
    """Rows that another device has are zeros here."""
    yield from ()
    axis = device.call().int("axis")
    table, rows = device.operands[0], device.operands[1]
    if not device.axes_of(0, (axis,)):
        return device.run()
    count = table.shape[axis]
    if not count:
        return [np.zeros(device.call().result_dims[0], dtype=table.dtype)]
    mine, wanted = own_rows(rows, device.dims(0)[axis], device.first(0, axis), count)
    (found,) = device.run(operands=[table, wanted])
    shape = [1] * found.ndim
    shape[axis : axis + rows.ndim] = rows.shape
    return [np.where(np.reshape(mine, shape), found, np.zeros_like(found))]


def gather_nd(device: Device) -> Running:
    """A coordinate that is the position itself counts from where the part begins."""
    yield from ()
    data, rows = device.operands[0], device.operands[1]
    batch = device.call().int("batch_dims")
    first = [0] * rows.shape[-1]
    for dim in view_of(device).ints("identity_coordinates")[::2]:
        first[dim - batch] = device.first(0, dim)
    rows = rows - np.asarray(first) if any(first) else rows
    return device.run(operands=[data, rows])


def one_hot(device: Device) -> Running:
    """Of a new dimension that is split every device keeps its own elements."""
    yield from ()
    axis = device.call().int("axis", len(device.dims(0)))
    own = device.result_place(0, axis)
    whole = device.results[0].dims[axis]
    if len(own) == whole:
        return device.run()
    dims = list(device.call().result_dims[0])
    dims[axis] = whole
    (found,) = device.run(result_dims=[tuple(dims)])
    return [found[(slice(None),) * axis + (own,)]]


def _data_once(device: Device) -> Any:
    """The data; zeros for all but the first of the devices that share out the updates."""
    data = device.operands[0]
    held = device.axes_of(0, range(data.ndim))
    shared = device.axes_of(1, range(len(device.dims(1))))
    return data if device.leads([a for a in shared if a not in held]) else np.zeros_like(data)


def scatter_elements(device: Device) -> Running:
    """Devices with different updates add them to zeros, but for the first, which has the data."""
    yield from ()
    return device.run(operands=[_data_once(device), *device.operands[1:3]])


def scatter_nd(device: Device) -> Running:
    """Updates of rows that another device has go to a row behind the part, which is cut off."""
    yield from ()
    part, rows, values = _data_once(device), device.operands[1], device.operands[2]
    columns = [rows[..., d] for d in range(rows.shape[-1])]
    cut = [d for d in range(len(columns)) if device.axes_of(0, (d,))]
    if not cut:
        return device.run(operands=[part, rows, values])
    mine = np.ones(rows.shape[:-1], dtype=bool)
    for dim in cut:
        first, size = device.first(0, dim), device.dims(0)[dim]
        own, columns[dim] = own_rows(columns[dim], size, first, part.shape[dim])
        mine = mine & own
    outer = cut[0]
    columns[outer] = np.where(mine, columns[outer], part.shape[outer])
    behind = [1 if d == outer else size for d, size in enumerate(part.shape)]
    wide = np.concatenate([part, np.zeros(behind, dtype=part.dtype)], axis=outer)
    given = [wide, np.stack(columns, axis=-1), values]
    (found,) = device.run(operands=given, result_dims=[tuple(wide.shape)])
    return [found[tuple(slice(0, size) for size in part.shape)]]
