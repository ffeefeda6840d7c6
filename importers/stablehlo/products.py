"""Products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from importers.errors import UnsupportedError
from importers.stablehlo.call import ViewCall
from importers.stablehlo.draft import View
from importers.stablehlo.heads import Grouped, Side, grouped_heads
from importers.stablehlo.views import permuted, picked, tensor_of
from importers.traced.table import spelled


@spelled(stablehlo="stablehlo.dot_general()")
def _dot(call: ViewCall) -> None:
    call.views = _of_one_type(call)
    left, right = _sides(call)
    order = [left, right]
    if _effort(right, left) < _effort(left, right):
        order.reverse()
    grouped = grouped_heads(call, *order)
    made, places = _product(call, *order) if grouped is None else _apart(call, grouped)
    dims = call.result.dims
    axes: list[int | None] = [None] * len(dims)
    for axis, place in enumerate(places):
        if place is not None:
            axes[place] = axis
    call.finish(call.draft.view(made, dims, axes))


def _of_one_type(call: ViewCall) -> list[View]:
    """Operands of different types in that of the result; sums of short numbers may be longer."""
    if len({v.dtype for v in call.views}) == 1:
        return list(call.views)
    return [call.cast(view, call.result.dtype) for view in call.views]


def _sides(call: ViewCall) -> tuple[Side, Side]:
    """Both operands; the result has the batch, then the free dimensions of the first, then those of
    the second.
    """
    batch, inner = (call.pairs(n) for n in ("batching_dims", "contracting_dims"))
    given = call.operation.attributes.get("dot_dimension_numbers")
    if given is not None:
        raise UnsupportedError
    sides: list[Side] = []
    base = len(batch[0])
    for view, own_batch, own_inner in zip(call.views, batch, inner, strict=False):
        rest = [i for i in range(len(view.dims)) if i not in {*own_batch, *own_inner}]
        places = {axis: index for index, axis in enumerate(own_batch)}
        places.update({axis: base + index for index, axis in enumerate(rest)})
        sides.append(Side(view, own_batch, tuple(rest), own_inner, places))
        base += len(rest)
    if len(sides) != 2 or base != len(call.result.dims):
        raise call.fault("it has no two operands of its dims")
    for pairs in (batch, inner):
        sizes = [tuple(s.view.dims[i] for i in p) for s, p in zip(sides, pairs, strict=True)]
        if sizes[0] != sizes[1]:
            raise call.fault(f"{list(sizes[0])} and {list(sizes[1])} do not match")
    return sides[0], sides[1]


def _effort(left: Side, right: Side) -> int:
    """Steps that bring both to rows times columns, as far as they are no weights."""
    cost = int(left.turned) + int(not right.turned)
    many = [i for i in right.free if right.view.dims[i] != 1]
    if len(many) > 1 and not left.batch:
        cost += 2
    return cost


def _product(call: ViewCall, left: Side, right: Side) -> tuple[str, list[int | None]]:
    """The product, and for each of its dimensions the one of the result that it is."""
    batch = [i for i, b in enumerate(left.batch) if left.view.dims[b] != 1]
    rows, columns = (_real(s, s.free) for s in (left, right))
    merged = bool(batch) and len(rows) != 1
    names = [
        _matrix(call, left, batch, merge_free=merged, columns=False),
        _matrix(call, right, batch, merge_free=True, columns=True),
    ]
    made = call.nodes.matmul(*names)
    dims = call.nodes.dims(made)
    sizes = [left.view.dims[left.batch[i]] for i in batch]
    apart = [*sizes, *_sizes(left, rows), *_sizes(right, columns)]
    places: list[int | None] = [
        *(left.places[left.batch[i]] for i in batch), *(left.places[i] for i in rows),
        *(right.places[i] for i in columns),
    ]  # fmt: skip
    if tuple(d for d in dims if d != 1) == tuple(apart):
        rest = iter(places)
        return made, [None if d == 1 else next(rest) for d in dims]
    return call.nodes.reshape(made, *apart), places


def _apart(call: ViewCall, grouped: Grouped) -> tuple[str, list[int | None]]:
    """The product of all heads, with the groups of heads as a dimension of their own."""
    made, places = _product(call, grouped.left, grouped.right)
    at = places.index(grouped.place)
    dims = call.draft.tensors[made].dims
    size = grouped.count
    name = call.nodes.reshape(made, *dims[:at], dims[at] // size, size, *dims[at + 1 :])
    return name, [*places[: at + 1], grouped.group_place, *places[at + 1 :]]


def _real(side: Side, axes: Sequence[int]) -> list[int]:
    """Dimensions that have more than one element, in the order of the tensor."""
    found = [i for i in axes if side.view.dims[i] != 1]
    if all(side.view.axes[i] is not None for i in found):
        found.sort(key=lambda i: side.view.axes[i] or 0)
    return found


def _sizes(side: Side, axes: Sequence[int]) -> list[int]:
    return [side.view.dims[i] for i in axes]


def _matrix(
    call: ViewCall, side: Side, batch: Sequence[int], *, merge_free: bool, columns: bool
) -> str:
    """The operand as batch, rows, inner; for the second one as batch, inner, columns."""
    heads = [side.batch[i] for i in batch]
    free = _real(side, side.free)
    inner = [i for i in side.inner if side.view.dims[i] != 1]
    whole = math.prod(_sizes(side, free))
    free_dims = (whole,) if merge_free or not free else tuple(_sizes(side, free))
    inner_dims = (math.prod(_sizes(side, inner)),)
    turned = side.turned
    groups = [*heads, *((*inner, *free) if turned else (*free, *inner))]
    if turned:
        free_dims = (whole,)
    shape = tuple(_sizes(side, heads))
    shape += (*inner_dims, *free_dims) if turned else (*free_dims, *inner_dims)
    name = _shaped(call, side.view, groups, shape)
    return name if turned == columns else call.nodes.flipped(name)


def _shaped(call: ViewCall, view: View, groups: Sequence[int], shape: tuple[int, ...]) -> str:
    """A tensor of a shape from dimensions of a view in an order, others of which have size one."""
    part = picked(view, groups)
    tensor = call.draft.tensors[view.name]
    if tensor.dims == shape and [a for a in part.axes if a is not None] == sorted(
        a for a in part.axes if a is not None
    ) and None not in part.axes:  # fmt: skip
        return view.name
    return call.nodes.reshape(tensor_of(call.draft, part, call.scope), *shape)


@spelled(stablehlo="stablehlo.convolution()")
def _convolution(call: ViewCall) -> None:
    """With batch and channels in front; the values are seen in the order of the program."""
    letters = _letters(call)
    window = call.operation.attributes.get("window", {})
    if not isinstance(window, dict):
        raise call.fault("its window is no record")
    call.views = _of_one_type(call)
    value, kernel = call.view(0), call.view(1)
    places = [_places(call, letters[n], *pair) for n, pair in _ROLES.items()]
    rank = len(value.dims) - 2
    if any(len(p) != rank + 2 for p in places) or call.int("batch_group_count", 1) != 1:
        raise UnsupportedError
    strides, dilations = (_list(call, window, key, rank) for key in ("stride", "rhs_dilate"))
    if _list(call, window, "lhs_dilate", rank) != (1,) * rank or any(
        bool(v) for v in _raw_list(window, "reverse")
    ):
        raise UnsupportedError
    pads = _raw_list(window, "pad") or [(0, 0)] * rank
    sides = [p if isinstance(p, tuple) else (p, p) for p in pads]
    flat = tuple(int(str(s[i])) for i in (0, 1) for s in sides)
    if min(flat, default=0) < 0:
        raise UnsupportedError
    inputs = [call.whole(permuted(v, p)) for v, p in zip((value, kernel), places[:2], strict=True)]
    dims = tuple(call.result.dims[p] for p in places[2])
    size = call.draft.tensors[inputs[1]].dims[2:]
    attributes: dict[str, Any] = {
        "kernel_shape": size, "strides": strides, "dilations": dilations, "pads": flat,
        "group": call.int("feature_group_count", 1),
    }  # fmt: skip
    made = call.nodes.op("Conv", inputs, dims, value.dtype, **attributes)
    back = [places[2].index(i) for i in range(rank + 2)]
    call.finish(permuted(call.draft.plain(made), back))


_ROLES = {"input": ("b", "f"), "kernel": ("o", "i"), "output": ("b", "f")}


def _letters(call: ViewCall) -> dict[str, tuple[str, ...]]:
    given = call.operation.attributes.get("dim_numbers")
    if not isinstance(given, dict):
        raise UnsupportedError
    found: dict[str, tuple[str, ...]] = {}
    for side in _ROLES:
        letters = given.get(side)
        found[side] = tuple(str(v) for v in letters) if isinstance(letters, tuple) else ()
    return found


def _places(call: ViewCall, letters: tuple[str, ...], first: str, second: str) -> tuple[int, ...]:
    """Dimensions of an operand: batch, channels, space."""
    space = [str(i) for i in range(len(letters) - 2)]
    wanted = [first, second, *space]
    if sorted(wanted) != sorted(letters):
        raise call.fault(f"{list(letters)} are no dimensions of a convolution")
    return tuple(letters.index(w) for w in wanted)


def _raw_list(window: Mapping[str, Any], key: str) -> list[Any]:
    value = window.get(key, ())
    return list(value) if isinstance(value, tuple) else []


def _list(call: ViewCall, window: Mapping[str, Any], key: str, rank: int) -> tuple[int, ...]:
    values = _raw_list(window, key) or [1] * rank
    if len(values) != rank or not all(isinstance(v, int) for v in values):
        raise call.fault(f"{key} of its window is no list of {rank} numbers")
    return tuple(values)
