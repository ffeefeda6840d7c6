"""Operations that move elements, and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from importers.errors import UnsupportedError
from importers.stablehlo.call import Call, Converter
from importers.stablehlo.draft import MAX_FOLDED
from importers.stablehlo.numbers import array_of, numpy_type
from importers.stablehlo.program import Dense
from importers.stablehlo.views import (
    View,
    expanded,
    order_of,
    permuted,
    plain,
    repeated,
    reshaped,
    viewed,
)

_NO_END = -(2**63) + 1


def _constant(call: Call) -> None:
    value = call.operation.attributes.get("value")
    if not isinstance(value, Dense):
        raise call.fault("it holds no numbers")
    kind = call.result
    array = array_of(value, kind, call.where)
    if array is None:
        name = call.draft.tensor("stored", kind.dims, kind.dtype)
        call.draft.outside.add(name)
        call.finish_with(name)
    elif array.ndim == 0:
        one = plain(call.draft, call.draft.constant(array, kind.dtype))
        call.finish(repeated(one, kind.dims, ()))
    else:
        call.finish_with(call.draft.constant(array, kind.dtype))


def _iota(call: Call) -> None:
    """Numbers along one dimension, repeated along the others."""
    kind = call.result
    given = "dim" if "dim" in call.operation.attributes else "iota_dimension"
    axis = call.axis(call.int(given), len(kind.dims))
    call.finish(repeated(counted(call, kind.dims[axis], kind.dtype), kind.dims, [axis]))


def counted(call: Call, count: int, dtype: str) -> View:
    """The numbers from 0 on."""
    if count <= MAX_FOLDED:
        array = np.arange(count).astype(numpy_type(dtype))
        return plain(call.draft, call.draft.constant(array, dtype))
    bounds = [call.number(n, "int64").tensor for n in (0, count, 1)]
    whole = call.step("Range", bounds, (count,), "int64")
    return plain(call.draft, call.step("Cast", [whole], (count,), dtype, to=dtype))


def _broadcast(call: Call) -> None:
    name = "dims" if "dims" in call.operation.attributes else "broadcast_dimensions"
    view, dims, axes = call.operand(0), call.result.dims, call.ints(name)
    sizes = [dims[a] if 0 <= a < len(dims) else 0 for a in axes]
    fits = len(set(axes)) == len(axes) == len(view.dims)
    if not fits or any(own not in {1, size} for own, size in zip(view.dims, sizes, strict=True)):
        raise call.fault(f"{list(view.dims)} does not repeat to {list(dims)}")
    call.finish(repeated(view, dims, axes))


def _transpose(call: Call) -> None:
    name = "dims" if "dims" in call.operation.attributes else "permutation"
    call.finish(permuted(call.operand(0), call.ints(name)))


def _reshape(call: Call) -> None:
    view, dims = call.operand(0), call.result.dims
    if np.prod(view.dims, dtype=object) != np.prod(dims, dtype=object):
        raise call.fault(f"{list(view.dims)} has other elements than {list(dims)}")
    call.finish(reshaped(call.draft, view, dims, call.scope))


def _slice(call: Call) -> None:
    view = call.operand(0)
    ranges = call.operation.attributes.get("ranges")
    if isinstance(ranges, tuple):
        triples = [r for r in ranges if isinstance(r, tuple)]
        columns = [tuple(int(str(t[i])) for t in triples) for i in range(3)]
    else:
        columns = [call.ints(n) for n in ("start_indices", "limit_indices", "strides")]
    call.finish(cut(call, view, *columns))


def cut(
    call: Call, view: View, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
) -> View:
    """A part of a value: along each dimension from a start to an end, backwards with step -1."""
    if not len(starts) == len(ends) == len(steps) == len(view.dims):
        raise call.fault("a range is missing")
    chosen: list[tuple[int, int, int, int]] = []
    dims = []
    for axis, size, start, end, step in zip(view.axes, view.dims, starts, ends, steps, strict=True):
        if not ((0 <= start <= end <= size and step > 0) or (start, step) == (size - 1, -1)):
            raise call.fault(f"{start}:{end}:{step} is no part of {size}")
        count = size if step < 0 else -(-(end - start) // step)
        dims.append(count)
        if axis is not None and (count != size or step < 0):
            chosen.append((axis, start, end, step))
    if not chosen:
        return View(view.tensor, tuple(dims), view.axes)
    tensor = call.draft.tensors[view.tensor]
    own = list(tensor.dims)
    for count, axis in zip(dims, view.axes, strict=True):
        if axis is not None:
            own[axis] = count
    chosen.sort()
    lists = [tuple(c[i] for c in chosen) for i in range(4)]
    made = call.step(
        "Slice", [view.tensor], tuple(own), tensor.dtype,
        axes=lists[0], starts=lists[1], ends=lists[2], steps=lists[3],
    )  # fmt: skip
    return View(made, tuple(dims), view.axes)


def _reverse(call: Call) -> None:
    view = call.operand(0)
    axes = call.ints("dims" if "dims" in call.operation.attributes else "dimensions")
    turned = [i in axes and d > 1 for i, d in enumerate(view.dims)]
    starts = [d - 1 if t else 0 for d, t in zip(view.dims, turned, strict=True)]
    ends = [_NO_END if t else d for d, t in zip(view.dims, turned, strict=True)]
    call.finish(cut(call, view, starts, ends, [-1 if t else 1 for t in turned]))


def _concatenate(call: Call) -> None:
    given = "dim" if "dim" in call.operation.attributes else "dimension"
    axis = call.axis(call.int(given), len(call.result.dims))
    call.finish(joined(call, call.operands, axis, call.result.dims))


def joined(call: Call, views: Sequence[View], axis: int, dims: tuple[int, ...]) -> View:
    """Values side by side, in the order of the first that is there in full."""
    parts = [v for v in views if 0 not in v.dims]
    if len(parts) == 1:
        return parts[0]
    order = next((o for v in parts for o in [order_of(call.draft, [v])] if axis in o), None)
    if order is None or any(p < 0 for p in order):
        order = tuple(range(len(dims)))
    order = (*(i for i in range(len(dims)) if i not in order), *order)
    names = [expanded(call.draft, v, order, call.scope) for v in parts]
    own = tuple(dims[p] for p in order)
    dtype = call.dtype(parts[0])
    made = call.step("Concat", names, own, dtype, axis=order.index(axis))
    return viewed(call.draft, made, order, dims)


def _pad(call: Call) -> None:
    view, fill = call.operand(0), call.operand(1)
    names = ("low", "high", "interior")
    if "low" not in call.operation.attributes:
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, inner = (call.ints(n) for n in names)
    if any(inner):
        raise UnsupportedError
    starts = [max(0, -n) for n in low]
    ends = [d + min(0, n) for d, n in zip(view.dims, high, strict=True)]
    view = cut(call, view, starts, ends, [1] * len(starts))
    pads = tuple(max(0, n) for n in (*low, *high))
    if not any(pads):
        call.finish(view)
        return
    made = call.step(
        "Pad", [call.whole(view), fill.tensor], call.result.dims, call.dtype(view), pads=pads
    )
    call.finish_with(made)


def places_of(call: Call, first: int) -> list[int | None]:
    """Start indices, one operand for each dimension; None for those that are computed."""
    found = [call.scalar(v) for v in call.operands[first:]]
    return [None if f is None else int(f) for f in found]


def _dynamic_slice(call: Call) -> None:
    view = call.operand(0)
    sizes = call.ints("sizes" if "sizes" in call.operation.attributes else "slice_sizes")
    starts = places_of(call, 1)
    if len(starts) != len(sizes) or len(sizes) != len(view.dims):
        raise call.fault("an index is missing")
    # Indices are moved so that the part fits, as StableHLO says.
    known = [
        min(max(0 if s is None else s, 0), d - n)
        for s, d, n in zip(starts, view.dims, sizes, strict=True)
    ]
    ends = [
        d if s is None else k + n
        for s, k, d, n in zip(starts, known, view.dims, sizes, strict=True)
    ]
    cut_at = [0 if s is None else k for s, k in zip(starts, known, strict=True)]
    view = cut(call, view, cut_at, ends, [1] * len(ends))
    for axis, start in enumerate(starts):
        if start is None and sizes[axis] != view.dims[axis]:
            view = _rows_from(call, view, axis, call.operand(axis + 1), sizes[axis])
    call.finish(view)


def row_numbers(call: Call, start: View, count: int) -> View:
    """Numbers from a computed one on."""
    dtype = call.dtype(start)
    first = repeated(reshaped(call.draft, start, (), call.scope), (count,), ())
    return call.pointwise("Add", [counted(call, count, dtype), first], dtype)


def _rows_from(call: Call, view: View, axis: int, start: View, count: int) -> View:
    index = call.whole(row_numbers(call, start, count))
    dims = (*view.dims[:axis], count, *view.dims[axis + 1 :])
    made = call.step("Gather", [call.whole(view), index], dims, call.dtype(view), axis=axis)
    return plain(call.draft, made)


def _dynamic_update(call: Call) -> None:
    view, part = call.operand(0), call.operand(1)
    starts = places_of(call, 2)
    partial = [i for i, (d, n) in enumerate(zip(view.dims, part.dims, strict=True)) if d != n]
    if not partial:
        call.finish(part)
    elif all(starts[i] is not None for i in partial):
        call.finish(_replaced(call, view, part, partial, starts))
    elif len(partial) == 1:
        _written(call, view, part, partial[0])
    else:
        raise UnsupportedError


def _replaced(
    call: Call, view: View, part: View, partial: Sequence[int], starts: Sequence[int | None]
) -> View:
    """What is before, the part, and what is behind, one dimension after the other."""
    axis, rest = partial[0], partial[1:]
    size, width = view.dims[axis], part.dims[axis]
    low = min(max(starts[axis] or 0, 0), size - width)

    def rows(start: int, end: int) -> View:
        starts = [start if i == axis else 0 for i in range(len(view.dims))]
        ends = [end if i == axis else d for i, d in enumerate(view.dims)]
        return cut(call, view, starts, ends, [1] * len(ends))

    if rest:
        part = _replaced(call, rows(low, low + width), part, rest, starts)
    pieces = [rows(0, low), part, rows(low + width, size)]
    return joined(call, pieces, axis, view.dims)


def _written(call: Call, view: View, part: View, axis: int) -> None:
    """Rows at a computed place."""
    order = (axis, *(i for i in range(len(view.dims)) if i != axis))
    index = row_numbers(call, call.operand(axis + 2), part.dims[axis])
    count = part.dims[axis]
    places = call.whole(reshaped(call.draft, index, (count, 1), call.scope))
    rows, news = (call.whole(permuted(v, order)) for v in (view, part))
    dims = tuple(view.dims[i] for i in order)
    made = call.step("ScatterND", [rows, places, news], dims, call.dtype(view), reduction="none")
    call.finish(permuted(plain(call.draft, made), [order.index(i) for i in range(len(order))]))


MOVES: Mapping[str, Converter] = MappingProxyType(
    {
        "stablehlo.constant": _constant,
        "stablehlo.iota": _iota,
        "stablehlo.broadcast_in_dim": _broadcast,
        "stablehlo.transpose": _transpose,
        "stablehlo.reshape": _reshape,
        "stablehlo.slice": _slice,
        "stablehlo.reverse": _reverse,
        "stablehlo.concatenate": _concatenate,
        "stablehlo.pad": _pad,
        "stablehlo.dynamic_slice": _dynamic_slice,
        "stablehlo.dynamic_update_slice": _dynamic_update,
    }
)
