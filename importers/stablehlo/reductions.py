"""Reductions, windows, orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.stablehlo.call import ViewCall, as_view
from importers.stablehlo.draft import View
from importers.stablehlo.moves import is_counted
from importers.stablehlo.program import Operation, Region
from importers.stablehlo.views import permuted, picked, tensor_of
from importers.traced.table import spelled
from ir.graph import Tensor


@dataclass(frozen=True, slots=True)
class Joining:
    """How two numbers become one, and so many of them."""

    word: str
    """Of ONNX's reductions."""
    neutral: tuple[float, ...]
    """What changes nothing: of numbers, and of flags."""
    join: Callable[..., Tensor]
    update: str
    """Of ONNX's scattered updates."""


_SUM = Joining("sum", (0.0,), ViewCall.add, "add")
_PRODUCT = Joining("prod", (1.0,), ViewCall.mul, "mul")
_LARGEST = Joining("max", (-math.inf, 0.0), ViewCall.maximum, "max")
_SMALLEST = Joining("min", (math.inf, 1.0), ViewCall.minimum, "min")
_BODIES = MappingProxyType(
    {
        "stablehlo.add": _SUM, "stablehlo.maximum": _LARGEST, "stablehlo.minimum": _SMALLEST,
        "stablehlo.multiply": _PRODUCT, "stablehlo.and": _SMALLEST, "stablehlo.or": _LARGEST,
    }
)  # fmt: skip


def body_joining(region: Region) -> Joining | None:
    """What a body of two numbers computes; None for anything else."""
    operations = [o for o in region.operations if o.name not in {"stablehlo.return", "return"}]
    if len(operations) != 1 or set(operations[0].operands) != set(region.arguments[:2]):
        return None
    return _BODIES.get(operations[0].name)


def _joining(operation: Operation) -> Joining | None:
    applied = operation.attributes.get("applies")
    if isinstance(applied, str):
        return _BODIES.get(applied)
    return body_joining(operation.regions[0]) if len(operation.regions) == 1 else None


@spelled(stablehlo="stablehlo.reduce()")
def _reduce(call: ViewCall) -> None:
    axes = call.ints("dimensions")
    if len(call.operation.types) == 2 and len(call.views) == 4:
        _place_of_best(call, axes)
        return
    joined = _joining(call.operation)
    if joined is None or len(call.views) != 2:
        raise UnsupportedError
    view = reduced(call, call.view(0), joined, axes)
    start = call.number(call.view(1))
    exact = start == joined.neutral[0] or (view.dtype == "bool" and start in joined.neutral)
    if not exact and not _is_lowest(start, view.dtype, joined):
        view = as_view(joined.join(call, view, call.view(1)))
    call.deliver(view)


def _is_lowest(start: float | None, dtype: str, joined: Joining) -> bool:
    """Whether whole numbers of a type have none below, or above for a minimum."""
    if start is None or "int" not in dtype:
        return False
    return start <= -(2**31) if joined is _LARGEST else joined is _SMALLEST and start >= 2**31 - 1


def reduced(call: ViewCall, view: View, joined: Joining, axes: tuple[int, ...]) -> View:
    """A value with dimensions reduced; the tensor keeps them with size one."""
    for axis in axes:
        call.inside(axis, len(view.dims))
    if any(view.axes[a] is None and view.dims[a] != 1 for a in axes):
        view = call.draft.plain(tensor_of(call.draft, view, call.scope))
    tensor = call.draft.tensors[view.name]
    own = tuple(sorted(a for a in (view.axes[i] for i in axes) if a is not None))
    rest = [i for i in range(len(view.dims)) if i not in axes]
    name = view.name
    if any(tensor.dims[a] != 1 for a in own):
        name = call.nodes.reduce(f"Reduce{joined.word.capitalize()}", name, own, keep=True)
    return picked(replace(view, name=name), rest)


def _place_of_best(call: ViewCall, axes: tuple[int, ...]) -> None:
    """The largest number and where it is: both sides of a reduction that compares."""
    view, places = call.view(0), call.view(1)
    compared = [
        word
        for region in call.operation.regions
        for operation in region.operations
        if operation.name == "stablehlo.compare"
        for word in operation.words[:1]
    ]
    direction = compared[0] if compared else ""
    if len(axes) != 1 or direction not in {"GT", "GE", "LT", "LE"} or not is_counted(call, places):
        raise UnsupportedError
    joined = _LARGEST if direction.startswith("G") else _SMALLEST
    best = reduced(call, view, joined, axes)
    whole = call.whole(view)
    dims = tuple(1 if i in axes else d for i, d in enumerate(view.dims))
    kind = f"Arg{joined.word.capitalize()}"
    found = call.nodes.op(kind, [whole], dims, "int64", axis=axes[0], keepdims=1)
    wanted = places.dtype
    index = call.cast(call.draft.plain(found), wanted)
    rest = [i for i in range(len(dims)) if i not in axes]
    call.deliver(best, picked(index, rest))


@spelled(stablehlo="stablehlo.reduce_window()")
def _window(call: ViewCall) -> None:
    """Pooling; a running sum is one over a window as long as the dimension."""
    view = call.view(0)
    rank = len(view.dims)
    size = call.ints("window_dimensions")
    strides = call.ints("window_strides", (1,) * rank)
    pads = call.ints("padding", (0,) * (2 * rank))
    spread = call.ints("window_dilations", (1,) * rank)
    base = call.ints("base_dilations", (1,) * rank)
    joined = _joining(call.operation)
    if joined not in {_SUM, _LARGEST} or set(base) != {1} or len(pads) != 2 * rank:
        raise UnsupportedError
    lows, highs = pads[::2], pads[1::2]
    running = [i for i in range(rank) if size[i] == view.dims[i] == lows[i] + 1 > 1]
    if joined is _SUM and len(running) == 1 and math.prod(size) == size[running[0]]:
        axis = call.scalar(running[0], "int64").name
        whole = call.whole(view)
        call.deliver(call.draft.plain(call.nodes.op("CumSum", [whole, axis], view.dims)))
        return
    space = [i for i in range(rank) if (size[i], strides[i], lows[i], highs[i]) != (1, 1, 0, 0)]
    order = [*(i for i in range(rank) if i not in space), *space]
    if rank - len(space) != 2 or min(pads) < 0 or (joined is _SUM and {spread[i] for i in space} != {1}):  # noqa: E501  # fmt: skip
        raise UnsupportedError
    whole = call.whole(permuted(view, order))
    dims = tuple(call.result.dims[i] for i in order)
    shape = tuple(size[i] for i in space)
    flat = (*(lows[i] for i in space), *(highs[i] for i in space))
    steps = tuple(strides[i] for i in space)
    dtype = view.dtype
    if joined is _LARGEST:
        wide = tuple(spread[i] for i in space)
        made = call.nodes.op(
            "MaxPool", [whole], dims, dtype, kernel_shape=shape, strides=steps, pads=flat,
            dilations=wide,
        )  # fmt: skip
    else:
        mean = call.nodes.op(
            "AveragePool", [whole], dims, dtype, kernel_shape=shape, strides=steps, pads=flat,
            count_include_pad=1,
        )  # fmt: skip
        made = call.nodes.mul(mean, call.scalar(math.prod(shape), dtype).name)
    back = [order.index(i) for i in range(rank)]
    call.deliver(permuted(call.draft.plain(made), back))


@spelled(stablehlo="chlo.top_k()")
def _top(call: ViewCall) -> None:
    """The largest `k` along the last dimension, and where they are."""
    count = call.operation.attributes.get("k")
    if not isinstance(count, int):
        given = call.operation.attributes.get("composite_attributes")
        count = given.get("k") if isinstance(given, dict) else None
    if not isinstance(count, int) or not 0 < count <= 2**31:
        raise call.fault("it names no number of results")
    _ordered(call, call.view(0), len(call.view(0).dims) - 1, count, largest=1)


def _ordered(call: ViewCall, view: View, axis: int, count: int, *, largest: int) -> None:
    whole = call.whole(view)
    dims = (*view.dims[:axis], count, *view.dims[axis + 1 :])
    wanted = call.operation.types[-1].dtype
    number = call.draft.constant([count], "int64").name
    results = [(dims, view.dtype), (dims, "int64")]
    best, index = call.draft.steps_of(
        "TopK", [whole, number], results, call.scope, axis=axis, largest=largest, sorted=1
    )
    places = call.draft.plain(index)
    found = [call.draft.plain(best), call.cast(places, wanted) if "int" in wanted else places]
    call.deliver(*found[: len(call.operation.types)])


@spelled(stablehlo="stablehlo.sort()")
def _sort(call: ViewCall) -> None:
    """Numbers in order, alone or with where they were."""
    axis = call.inside(call.int("dimension"), len(call.result.dims))
    regions = call.operation.regions
    compared = [o for r in regions for o in r.operations if o.name == "stablehlo.compare"]
    if not compared or len(call.views) > 2:
        raise UnsupportedError
    if len(call.views) == 2 and not is_counted(call, call.view(1)):
        raise UnsupportedError
    direction = compared[-1].words[0] if compared[-1].words else ""
    if direction not in {"LT", "GT", "LE", "GE"}:
        raise UnsupportedError
    view = call.view(0)
    _ordered(call, view, axis, view.dims[axis], largest=int(direction.startswith("G")))
