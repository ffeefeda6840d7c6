"""Attributes that tell extents, for operators whose extents became others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ir.graph import AttributeValue, OpGraph
from ir.ops import OpView, Resizing, lookup

Attributes = Mapping[str, AttributeValue]
Rewriter = Callable[[OpView, OpView, Sequence[int]], Attributes]
"""What changes, from the operator before, the operator after, and the new sizes of its factors."""


def rewritten(before: OpView, after: OpGraph, factors: Sequence[int]) -> dict[str, AttributeValue]:
    """The attributes of an operator in a graph with other dims."""
    told = lookup(before.op.kind).resizing
    change = _REWRITERS.get(told) if told else None
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
    for place, (axis, end) in enumerate(zip(axes, bounds["ends"], strict=True)):
        if axis not in before.ints("axes") and end == before.dims(0)[axis]:
            bounds["ends"][place] = after.dims(0)[axis]
    return {key: tuple(values) for key, values in bounds.items() if values}


def _blocks(before: OpView, after: OpView, _: Sequence[int]) -> Attributes:
    """Blocks of an index that repeat from sample to sample."""
    if "index_blocks" not in before.op.attributes:
        return {}
    dim, count, step = before.ints("index_blocks")
    return {"index_blocks": (dim, count * after.dims(1)[dim] // before.dims(1)[dim], step)}


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


_REWRITERS: Mapping[Resizing, Rewriter] = MappingProxyType(
    {
        Resizing.BOUNDS: _slice,
        Resizing.ROWS: _blocks,
        Resizing.KERNEL: _group,
        Resizing.TRANSPOSED: _transposed_group,
        Resizing.WINDOWS: _window_of_all,
        Resizing.HEADS: _heads,
    }
)


@dataclass(frozen=True, slots=True)
class Cut:
    """A slice, whose bounds move in proportion to the extent."""

    first: int
    end: int
    step: int
    of: int

    def bounds(self, size: int) -> tuple[int, int] | None:
        """First and end in an extent of another size."""
        if self.first * size % self.of or self.end * size % self.of:
            return None
        return self.first * size // self.of, self.end * size // self.of

    def __call__(self, sizes: Sequence[int]) -> int | None:
        bounds = self.bounds(sizes[0])
        return None if bounds is None else -(-(bounds[1] - bounds[0]) // self.step)


def cuts(view: OpView) -> dict[int, Cut | None]:
    """What a slice takes of every axis that it cuts; None where that is not known."""
    axes, starts, ends = view.ints("slice_axes"), view.ints("starts"), view.ints("ends")
    out: dict[int, Cut | None] = dict.fromkeys(view.ints("axes"))
    steps = view.ints("steps", (1,) * len(axes))
    if view.has(1) or not len(axes) == len(starts) == len(ends) == len(steps):
        return out
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = view.dims(0)[axis]
        if axis in out and step > 0:
            out[axis] = Cut(_clamped(start, size), _clamped(end, size), step, size)
    return out


def _clamped(bound: int, size: int) -> int:
    return min(max(bound + size if bound < 0 else bound, 0), size)


def covers_all(view: OpView) -> bool:
    """Whether the window of a pool is all positions of an image."""
    plain = len(view.outputs) == 1 and set(view.ints("dilations", (1,))) == {1}
    return plain and view.ints("kernel_shape") == padded(view)


def padded(view: OpView) -> tuple[int, ...]:
    """Positions of an image with its padding."""
    image = view.dims(0)[2:]
    pads = view.ints("pads") or (0,) * (2 * len(image))
    return tuple(d + pads[i] + pads[len(image) + i] for i, d in enumerate(image))
