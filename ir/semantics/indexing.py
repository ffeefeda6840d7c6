"""Gathers and scatters, differentiable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ir.semantics.arrays import Array, np, placed
from ir.semantics.call import Call


def taken(table: Array, rows: Array, axis: int) -> Array:
    """Rows of a table along an axis, as in numpy's `take`."""
    return table[(slice(None),) * axis + (rows,)]


def element_slots(rows: Array, dims: tuple[int, ...], axis: int) -> Array:
    """Number, in the flat tensor of these dims, of the element that each index means."""
    if rows.size and not (-dims[axis] <= rows.min() and rows.max() < dims[axis]):
        raise IndexError(f"indices {rows.min()} to {rows.max()} of {dims[axis]} elements")
    places = list(np.indices(rows.shape))
    places[axis] = np.where(rows < 0, rows + dims[axis], rows)
    strides = [math.prod(dims[d + 1 :]) for d in range(len(dims))]
    return sum((p * s for p, s in zip(places, strides, strict=True)), np.zeros_like(rows))


def row_slots(rows: Array, dims: tuple[int, ...]) -> Array:
    """Number of the row that each coordinate means, among all rows of these dims."""
    out = np.zeros(rows.shape[:-1], dtype=np.int64)
    for dim, size in enumerate(dims):
        place = rows[..., dim]
        if place.size and not (-size <= place.min() and place.max() < size):
            raise IndexError(f"coordinates {place.min()} to {place.max()} of {size}")
        out = out * size + np.where(place < 0, place + size, place)
    return out


def gather(call: Call) -> list[Array]:
    return [taken(call[0], call[1], call.int("axis"))]


def gather_elements(call: Call) -> list[Array]:
    data, rows = call[0], call[1]
    slots = element_slots(rows, data.shape, call.int("axis"))
    return [np.reshape(data, (-1,))[slots]]


def gather_nd(call: Call) -> list[Array]:
    data, rows, batch = call[0], call[1], call.int("batch_dims")
    depth = batch + rows.shape[-1]
    before = [
        np.arange(size).reshape([-1 if d == i else 1 for i in range(rows.ndim - 1)])
        for d, size in enumerate(data.shape[:batch])
    ]
    if before:
        shape = (*rows.shape[:-1], 1)
        before = [np.broadcast_to(b, rows.shape[:-1]).reshape(shape) for b in before]
        rows = np.concatenate([*before, rows], axis=-1)
    slots = row_slots(rows, data.shape[:depth])
    return [np.reshape(data, (-1, *data.shape[depth:]))[slots]]


_COMBINED: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        "none": lambda _, new: new,
        "mul": lambda old, new: old * new,
        "max": np.maximum,
        "min": np.minimum,
    }
)


def scattered(rows: Array, slots: Array, values: Array, reduction: str) -> Array:
    """Rows changed at some places; places may repeat, the last of them counts without reduction."""
    count = rows.shape[0]
    if reduction == "add":
        return rows + placed(values, slots, count)
    combine = _COMBINED[reduction]
    order = np.argsort(slots, kind="stable")
    firsts = np.searchsorted(slots[order], slots[order])
    turn = np.arange(len(slots)) - firsts
    for number in range(int(turn.max(initial=-1)) + 1):
        chosen = order[turn == number]
        written = np.zeros((count,) + (1,) * (rows.ndim - 1), dtype=bool)
        written[slots[chosen]] = True
        new = placed(values[chosen], slots[chosen], count)
        rows = np.where(written, combine(rows, np.where(written, new, rows)), rows)
    return rows


def _reduction(call: Call) -> str:
    return str(call.op.attributes.get("reduction", "none"))


def scatter_elements(call: Call) -> list[Array]:
    data, rows, values = call[0], call[1], call[2]
    slots = element_slots(rows, data.shape, call.int("axis")).reshape(-1)
    flat = scattered(np.reshape(data, (-1,)), slots, np.reshape(values, (-1,)), _reduction(call))
    return [np.reshape(flat, data.shape)]


def scatter_nd(call: Call) -> list[Array]:
    data, rows, values = call[0], call[1], call[2]
    depth = rows.shape[-1]
    slots = row_slots(rows, data.shape[:depth]).reshape(-1)
    rest = data.shape[depth:]
    flat = scattered(
        np.reshape(data, (-1, *rest)), slots, np.reshape(values, (-1, *rest)), _reduction(call)
    )
    return [np.reshape(flat, data.shape)]
