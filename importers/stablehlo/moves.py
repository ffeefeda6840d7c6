"""Operations that move elements, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from importers.errors import UnsupportedError
from importers.stablehlo.call import ViewCall, as_view
from importers.stablehlo.draft import MAX_FOLDED, View
from importers.stablehlo.numbers import array_of
from importers.stablehlo.program import Dense
from importers.stablehlo.views import (
    expanded,
    order_of,
    permuted,
    repeated,
    reshaped,
    viewed,
)
from importers.traced.table import spelled

_NO_END = -(2**63) + 1


@spelled(stablehlo="stablehlo.constant()")
def _constant(call: ViewCall) -> None:
    value = call.operation.attributes.get("value")
    if not isinstance(value, Dense):
        raise call.fault("it holds no numbers")
    kind = call.result
    array = array_of(value, call.operation.types[0], call.where)
    if array is None:
        stored = call.draft.tensor("stored", kind.dims, kind.dtype)
        call.draft.outside.add(stored.name)
        call.deliver(stored)
    elif array.ndim == 0:
        call.deliver(repeated(call.draft.constant(array, kind.dtype), kind.dims, ()))
    else:
        call.deliver(call.draft.constant(array, kind.dtype))


@spelled(stablehlo="stablehlo.iota()")
def _iota(call: ViewCall) -> None:
    """Numbers along one dimension, repeated along the others."""
    kind = call.result
    given = "dim" if "dim" in call.operation.attributes else "iota_dimension"
    axis = call.inside(call.int(given), len(kind.dims))
    call.deliver(repeated(counted(call, kind.dims[axis], kind.dtype), kind.dims, [axis]))


_COUNTING = "Range"


def counted(call: ViewCall, count: int, dtype: str) -> View:
    """The numbers from 0 on."""
    if count <= MAX_FOLDED:
        return call.draft.constant(np.arange(count), dtype)
    bounds = [call.scalar(n, "int64").name for n in (0, count, 1)]
    whole = call.nodes.op(_COUNTING, bounds, (count,), "int64")
    return call.cast(call.draft.plain(whole), dtype)


def is_counted(call: ViewCall, view: View) -> bool:
    """Whether a value is the numbers from 0 on along one dimension."""
    array = call.draft.numbers.get(view.name)
    if array is None:
        maker = call.draft.makers.get(view.name)
        return maker is not None and maker.kind in {_COUNTING, "Cast"}
    flat = array.reshape(-1)
    return bool((flat == range(flat.size)).all())


@spelled(stablehlo="stablehlo.broadcast_in_dim()")
def _broadcast(call: ViewCall) -> None:
    name = "dims" if "dims" in call.operation.attributes else "broadcast_dimensions"
    view, dims, axes = call.view(0), call.result.dims, call.ints(name)
    sizes = [dims[a] if 0 <= a < len(dims) else 0 for a in axes]
    fits = len(set(axes)) == len(axes) == len(view.dims)
    if not fits or any(own not in {1, size} for own, size in zip(view.dims, sizes, strict=True)):
        raise call.fault(f"{list(view.dims)} does not repeat to {list(dims)}")
    call.deliver(repeated(view, dims, axes))


@spelled(stablehlo="stablehlo.transpose()")
def _transpose(call: ViewCall) -> None:
    name = "dims" if "dims" in call.operation.attributes else "permutation"
    call.deliver(permuted(call.view(0), call.ints(name)))


@spelled(stablehlo="stablehlo.reshape()")
def _reshape(call: ViewCall) -> None:
    view, dims = call.view(0), call.result.dims
    if np.prod(view.dims, dtype=object) != np.prod(dims, dtype=object):
        raise call.fault(f"{list(view.dims)} has other elements than {list(dims)}")
    call.deliver(reshaped(call.draft, view, dims, call.scope))


@spelled(stablehlo="stablehlo.slice()")
def _slice(call: ViewCall) -> None:
    view = call.view(0)
    ranges = call.operation.attributes.get("ranges")
    if isinstance(ranges, tuple):
        triples = [r for r in ranges if isinstance(r, tuple)]
        columns = [tuple(int(str(t[i])) for t in triples) for i in range(3)]
    else:
        columns = [call.ints(n) for n in ("start_indices", "limit_indices", "strides")]
    call.deliver(cut(call, view, *columns))


def cut(
    call: ViewCall, view: View, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
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
        return replace(view, dims=tuple(dims))
    own, first, last, by = zip(*sorted(chosen), strict=True)
    made = call.nodes.slices(view.name, first, last, own, by)
    return replace(view, name=made, dims=tuple(dims))


@spelled(stablehlo="stablehlo.reverse()")
def _reverse(call: ViewCall) -> None:
    view = call.view(0)
    axes = call.ints("dims" if "dims" in call.operation.attributes else "dimensions")
    turned = [i in axes and d > 1 for i, d in enumerate(view.dims)]
    starts = [d - 1 if t else 0 for d, t in zip(view.dims, turned, strict=True)]
    ends = [_NO_END if t else d for d, t in zip(view.dims, turned, strict=True)]
    call.deliver(cut(call, view, starts, ends, [-1 if t else 1 for t in turned]))


@spelled(stablehlo="stablehlo.concatenate()")
def _concatenate(call: ViewCall) -> None:
    given = "dim" if "dim" in call.operation.attributes else "dimension"
    axis = call.inside(call.int(given), len(call.result.dims))
    call.deliver(joined(call, call.views, axis, call.result.dims))


def joined(call: ViewCall, views: Sequence[View], axis: int, dims: tuple[int, ...]) -> View:
    """Values side by side, in the order of the first that is there in full."""
    parts = [v for v in views if 0 not in v.dims]
    if len(parts) == 1:
        return parts[0]
    order = next((o for v in parts for o in [order_of(call.draft, [v])] if axis in o), None)
    if order is None or any(p < 0 for p in order):
        order = tuple(range(len(dims)))
    order = (*(i for i in range(len(dims)) if i not in order), *order)
    names = [expanded(call.draft, v, order, call.scope) for v in parts]
    made = call.nodes.concat(order.index(axis), *names)
    return viewed(call.draft, made, order, dims)


@spelled(stablehlo="stablehlo.pad()")
def _pad(call: ViewCall) -> None:
    view, fill = call.view(0), call.view(1)
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
        call.deliver(view)
        return
    made = call.nodes.op(
        "Pad", [call.whole(view), fill.name], call.result.dims, view.dtype, pads=pads
    )
    call.deliver(call.draft.plain(made))


def places_of(call: ViewCall, first: int) -> list[int | None]:
    """Start indices, one operand for each dimension; None for those that are computed."""
    found = [call.number(v) for v in call.views[first:]]
    return [None if f is None else int(f) for f in found]


@spelled(stablehlo="stablehlo.dynamic_slice()")
def _dynamic_slice(call: ViewCall) -> None:
    view = call.view(0)
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
            view = _rows_from(call, view, axis, call.view(axis + 1), sizes[axis])
    call.deliver(view)


def row_numbers(call: ViewCall, start: View, count: int) -> View:
    """Numbers from a computed one on."""
    dtype = start.dtype
    first = repeated(reshaped(call.draft, start, (), call.scope), (count,), ())
    return as_view(call.add(counted(call, count, dtype), first))


def _rows_from(call: ViewCall, view: View, axis: int, start: View, count: int) -> View:
    index = call.whole(row_numbers(call, start, count))
    return call.draft.plain(call.nodes.gather(call.whole(view), index, axis))


@spelled(stablehlo="stablehlo.dynamic_update_slice()")
def _dynamic_update(call: ViewCall) -> None:
    view, part = call.view(0), call.view(1)
    starts = places_of(call, 2)
    partial = [i for i, (d, n) in enumerate(zip(view.dims, part.dims, strict=True)) if d != n]
    if not partial:
        call.deliver(part)
    elif all(starts[i] is not None for i in partial):
        call.deliver(_replaced(call, view, part, partial, starts))
    elif len(partial) == 1:
        _written(call, view, part, partial[0])
    else:
        raise UnsupportedError


def _replaced(
    call: ViewCall, view: View, part: View, partial: Sequence[int], starts: Sequence[int | None]
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


def _written(call: ViewCall, view: View, part: View, axis: int) -> None:
    """Rows at a computed place."""
    order = (axis, *(i for i in range(len(view.dims)) if i != axis))
    index = row_numbers(call, call.view(axis + 2), part.dims[axis])
    count = part.dims[axis]
    places = call.whole(reshaped(call.draft, index, (count, 1), call.scope))
    rows, news = (call.whole(permuted(v, order)) for v in (view, part))
    made = call.nodes.scatter_nd(rows, places, news, "none")
    call.deliver(permuted(call.draft.plain(made), [order.index(i) for i in range(len(order))]))
