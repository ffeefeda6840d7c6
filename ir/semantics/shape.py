"""Operators that move or rename elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.semantics.arrays import Array, constant, stretched
from ir.semantics.arrays import np as anp
from ir.semantics.call import Call


def transpose(call: Call) -> list[Array]:
    return [anp.transpose(call[0], call.ints("perm", tuple(reversed(range(call[0].ndim)))))]


def reshape(call: Call) -> list[Array]:
    return [anp.reshape(call[0], call.result_dims[0])]


def expand(call: Call) -> list[Array]:
    return [stretched(call[0], call.result_dims[0])]


def _along(array: Array, axis: int, places: Any) -> Array:
    """Elements at some places of one dimension."""
    index: list[Any] = [slice(None)] * array.ndim
    index[axis] = places
    return array[tuple(index)]


def tile(call: Call) -> list[Array]:
    data = call[0]
    for axis, wanted in enumerate(call.result_dims[0]):
        if wanted != data.shape[axis]:
            data = _along(data, axis, np.arange(wanted) % data.shape[axis])
    return [data]


def pad(call: Call) -> list[Array]:
    """Each dimension takes elements from places; -1 is the value of the padding."""
    data = call[0]
    axes, pads, value = _padding(call)
    mode: Any = call.op.attributes.get("mode", "constant")
    for axis, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        size = data.shape[axis]
        places = np.arange(max(0, -before), size + min(0, after))
        more = (max(0, before), max(0, after))
        if mode == "constant":
            places = np.pad(places, more, constant_values=-1)
        else:
            places = np.pad(places, more, mode=mode)
        shape = [-1 if d == axis else 1 for d in range(data.ndim)]
        outside = np.reshape(places < 0, shape)
        data = _along(data, axis, np.maximum(places, 0))
        data = anp.where(outside, value, data) if outside.any() else data
    return [data]


def _padding(call: Call) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
    """Axes, sizes and value, from attributes or, where they are computed, from operands."""
    if "pads" in call.op.attributes:
        value = call[1] if call.has(1) else call.float("value", 0.0)
        return call.ints("axes", tuple(range(call[0].ndim))), call.ints("pads"), value
    pads = tuple(int(v) for v in constant(call[1]))
    axes = constant(call[3]) if call.has(3) else range(call[0].ndim)
    return tuple(int(a) % call[0].ndim for a in axes), pads, call[2] if call.has(2) else 0.0


def triangle(call: Call) -> list[Array]:
    offset = int(constant(call[1])) if call.has(1) else call.int("k")
    rows, columns = np.indices(call[0].shape[-2:])
    kept = columns - rows >= offset if call.int("upper", 1) else columns - rows <= offset
    return [anp.where(kept, call[0], anp.zeros((), dtype=call[0].dtype))]


def part(call: Call) -> list[Array]:
    data = call[0]
    axes, starts, ends, steps = _bounds(call)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        last = None if step < 0 and end < -data.shape[axis] else end
        part = slice(start, last, step)
        if part.indices(data.shape[axis]) != (0, data.shape[axis], 1):
            data = _along(data, axis, part)
    return [data]


def _bounds(call: Call) -> list[tuple[int, ...]]:
    """Axes that are cut, first and last places and steps, from attributes or operands."""
    if not call.has(1):
        starts, ends = call.ints("starts"), call.ints("ends")
        axes = call.ints("slice_axes", call.ints("axes"))
        every = (axes, starts, ends, call.ints("steps", (1,) * len(axes)))
        cut = [i for i, axis in enumerate(axes) if axis in call.ints("axes")]
        return [tuple(each[i] for i in cut) for each in every]
    starts, ends = (tuple(int(v) for v in constant(call[i])) for i in (1, 2))
    count = len(starts)
    axes = tuple(int(v) for v in constant(call[3])) if call.has(3) else tuple(range(count))
    steps = tuple(int(v) for v in constant(call[4])) if call.has(4) else (1,) * count
    return [axes, starts, ends, steps]


def concat(call: Call) -> list[Array]:
    return [anp.concatenate([call[i] for i in range(len(call.operands))], axis=call.int("axis"))]


def split(call: Call) -> list[Array]:
    axis, first, out = call.int("axis"), 0, []
    for dims in call.result_dims:
        out.append(_along(call[0], axis, slice(first, first + dims[axis])))
        first += dims[axis]
    return out
