"""Lookups and updates by computed places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from importers.errors import UnsupportedError
from importers.stablehlo.call import ViewCall
from importers.stablehlo.draft import Draft, View
from importers.stablehlo.patterns import matches
from importers.stablehlo.program import Attribute
from importers.stablehlo.reductions import body_joining
from importers.stablehlo.views import permuted, reshaped
from importers.traced.table import spelled


def _record(call: ViewCall, name: str) -> Mapping[str, Attribute]:
    found = call.operation.attributes.get(name)
    if not isinstance(found, dict):
        raise call.fault(f"{name} is no record")
    return found


def _axes(record: Mapping[str, Attribute], name: str) -> tuple[int, ...]:
    value = record.get(name, ())
    return tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else ()


def without_guard(draft: Draft, name: str) -> str:
    """Places before they were counted from the end where negative: lookups do that themselves."""
    maker = draft.makers.get(name)
    found = matches(draft, "Where(Less(x, 0), Add(x, n_size), x)", maker) if maker else ()
    return next((match.names["x"] for match in found), name)


def _places(call: ViewCall, view: View) -> View:
    name = without_guard(call.draft, view.name)
    return replace(view, name=name)


@spelled(stablehlo="stablehlo.gather()")
def _gather(call: ViewCall) -> None:
    value, places = call.view(0), _places(call, call.view(1))
    record = _record(call, "dimension_numbers")
    axes, gone = _axes(record, "start_index_map"), _axes(record, "collapsed_slice_dims")
    batch = _axes(record, "operand_batching_dims")
    offsets = _axes(record, "offset_dims")
    vector = record.get("index_vector_dim", len(places.dims))
    sizes = call.ints("slice_sizes")
    rank = len(value.dims)
    whole = all(sizes[i] == d for i, d in enumerate(value.dims) if i not in {*gone, *batch})
    if len(sizes) != rank or not isinstance(vector, int):
        raise call.fault("it names no sizes")
    if tuple(sorted(axes)) != tuple(sorted(gone)) or not whole:
        raise UnsupportedError
    index = _without_vector(call, places, vector, len(axes))
    if batch:
        _along(call, value, index, axes, batch, _axes(record, "start_indices_batching_dims"))
        return
    if len(axes) == 1:
        axis, count = axes[0], len(index.dims)
        made = call.nodes.gather(call.whole(value), call.whole(index), axis)
    else:
        axis, count = 0, len(index.dims) - 1
        value = permuted(value, (*axes, *(i for i in range(rank) if i not in axes)))
        made = call.nodes.gather_nd(call.whole(value), call.whole(index))
    call.deliver(_spread(call, made, count, axis, offsets))


def _without_vector(call: ViewCall, places: View, vector: int, count: int) -> View:
    """Places with the numbers of one place last; one number alone needs no dimension."""
    rank = len(places.dims)
    if vector > rank or (vector == rank and count != 1):
        raise call.fault("its places have too few dimensions")
    if vector < rank and places.dims[vector] != count:
        raise call.fault(f"a place has {places.dims[vector]} numbers, not {count}")
    if vector == rank:
        return places
    order = (*(i for i in range(rank) if i != vector), vector)
    found = permuted(places, order)
    return reshaped(call.draft, found, found.dims[:-1], call.scope) if count == 1 else found


def _spread(
    call: ViewCall,
    name: str,
    count: int,
    axis: int,
    offsets: tuple[int, ...],
) -> View:
    """The result with the dimensions of places where the file has them."""
    rank = len(call.nodes.dims(name))
    heads = list(range(axis, axis + count))
    rest = [i for i in range(rank) if i not in heads]
    if len(offsets) != len(rest):
        raise call.fault("its dimensions do not match")
    perm = [0] * rank
    others = [i for i in range(rank) if i not in offsets]
    if len(others) != len(heads):
        raise call.fault("its dimensions do not match")
    for place, own in [*zip(offsets, rest, strict=True), *zip(others, heads, strict=True)]:
        perm[place] = own
    return permuted(call.draft.plain(name), perm)


def _along(
    call: ViewCall, value: View, index: View, axes: tuple[int, ...], batch: tuple[int, ...],
    index_batch: tuple[int, ...],
) -> None:  # fmt: skip
    """Elements along one dimension, with all others in step."""
    order = _lined(value, index, axes, batch, index_batch)
    lined = permuted(index, order)
    made = call.nodes.gather_elements(call.whole(value), call.whole(lined), axes[0])
    back = [order.index(i) for i in range(len(order))]
    call.deliver(permuted(call.draft.plain(made), back))


def _lined(
    value: View, index: View, axes: tuple[int, ...], batch: tuple[int, ...],
    index_batch: tuple[int, ...],
) -> list[int]:  # fmt: skip
    """Dimensions of places in the order of the value, one of which is looked up."""
    rank = len(value.dims)
    if len(axes) != 1 or len(batch) != rank - 1 or len(index.dims) != rank:
        raise UnsupportedError
    if len(index_batch) != len(batch) or not set(index_batch) < set(range(rank)):
        raise UnsupportedError
    order: list[int] = [-1] * rank
    for own, place in zip(batch, index_batch, strict=True):
        order[own] = place
    order[axes[0]] = next(i for i in range(rank) if i not in index_batch)
    return order


@spelled(stablehlo="stablehlo.scatter()")
def _scatter(call: ViewCall) -> None:
    """Whole slices are written at the coordinates of leading dimensions, or added."""
    if len(call.views) != 3 or len(call.operation.regions) != 1:
        raise UnsupportedError
    value, places, updates = (call.view(i) for i in range(3))
    record = _record(call, "scatter_dimension_numbers")
    axes = _axes(record, "scatter_dims_to_operand_dims")
    gone, windows = _axes(record, "inserted_window_dims"), _axes(record, "update_window_dims")
    vector = record.get("index_vector_dim", len(places.dims))
    if not isinstance(vector, int) or vector > len(places.dims):
        raise call.fault("it names no dimension of places")
    batch = _axes(record, "input_batching_dims")
    if sorted(axes) != sorted(gone) or (batch and windows):
        raise UnsupportedError
    if batch:
        index = _without_vector(call, _places(call, places), vector, len(axes))
        given = _axes(record, "scatter_indices_batching_dims")
        lined = _lined(value, index, axes, batch, given)
        if updates.dims != index.dims:
            raise UnsupportedError
        parts = (value, permuted(index, lined), permuted(updates, lined))
        first, second, third = (call.whole(v) for v in parts)
        made = call.nodes.scatter_elements(first, second, third, axes[0], _reduction(call))
        call.deliver(call.draft.plain(made))
        return
    rank = len(value.dims)
    order = (*axes, *(i for i in range(rank) if i not in axes))
    rows = permuted(value, order)
    index = _places(call, places)
    if vector == len(index.dims):
        index = reshaped(call.draft, index, (*index.dims, 1), call.scope)
    index = permuted(index, (*(i for i in range(len(index.dims)) if i != vector), vector))
    heads = [i for i in range(len(updates.dims)) if i not in windows]
    news = permuted(updates, (*heads, *windows))
    if news.dims != (*index.dims[:-1], *rows.dims[len(axes) :]):
        raise UnsupportedError
    data, at, written = (call.whole(v) for v in (rows, index, news))
    made = call.nodes.scatter_nd(data, at, written, _reduction(call))
    call.deliver(permuted(call.draft.plain(made), [order.index(i) for i in range(rank)]))


def _reduction(call: ViewCall) -> str:
    region = call.operation.regions[0]
    last = region.operations[-1] if region.operations else None
    if last is not None and len(region.operations) == 1 and last.operands == region.arguments[1:]:
        return "none"
    joined = body_joining(region)
    if joined is None:
        raise UnsupportedError
    return joined.update
