"""Attributes that tell extents, for operators whose extents were made smaller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from executors.shrinking.knowledge import covers_all, cuts, padded
from ir.graph import AttributeValue, OpGraph
from ir.ops import OpView

Attributes = Mapping[str, AttributeValue]
Rewriter = Callable[[OpView, OpView, Sequence[int]], Attributes]
"""What changes, from the operator before, the operator after, and the new sizes of its factors."""


def rewritten(before: OpView, after: OpGraph, factors: Sequence[int]) -> dict[str, AttributeValue]:
    """The attributes of an operator in a graph with other dims."""
    change = _REWRITERS.get(before.op.kind)
    more = change(before, OpView(before.op, after), factors) if change else {}
    return {**before.op.attributes, **more}


def _slice(before: OpView, after: OpView, _: Sequence[int]) -> Attributes:
    axes = before.ints("slice_axes")
    bounds = {"starts": list(before.ints("starts")), "ends": list(before.ints("ends"))}
    for axis, cut in cuts(before).items():
        size = after.dims(0)[axis]
        moved = cut.bounds(size) if cut is not None and size != cut.of else None
        if moved is not None:
            for key, bound in zip(bounds, moved, strict=True):
                bounds[key][axes.index(axis)] = bound
    return {key: tuple(values) for key, values in bounds.items() if values}


def _group(before: OpView, after: OpView, _: Sequence[int]) -> Attributes:
    if before.int("group", 1) == 1:
        return {}
    return {"group": after.dims(0)[1] // after.dims(1)[1]}


def _transposed_group(before: OpView, after: OpView, _: Sequence[int]) -> Attributes:
    if before.int("group", 1) == 1:
        return {}
    return {"group": after.result()[1] // after.dims(1)[1]}


def _window_of_all(before: OpView, after: OpView, _: Sequence[int]) -> Attributes:
    return {"kernel_shape": padded(after)} if covers_all(before) else {}


def _heads(before: OpView, _: OpView, factors: Sequence[int]) -> Attributes:
    """Factors of attention: batch, key heads, query heads to each, and so on."""
    new = {"kv_num_heads": factors[1], "q_num_heads": factors[1] * factors[2]}
    return {key: value for key, value in new.items() if key in before.op.attributes}


_REWRITERS: Mapping[str, Rewriter] = MappingProxyType(
    {
        "Slice": _slice,
        "Conv": _group,
        "ConvTranspose": _transposed_group,
        "AveragePool": _window_of_all,
        "MaxPool": _window_of_all,
        "LpPool": _window_of_all,
        "Attention": _heads,
    }
)
