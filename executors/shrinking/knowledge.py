"""What rules do not say of extents: bounds of slices, windows, sums, looked-up dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.shrinking.extents import Scaled, Total, Window
from executors.shrinking.space import Knowledge, Space
from ir.graph import Role
from ir.ops import DISPATCH, OpView, Resizing
from ir.ops.shape import CARRIERS, TAKERS
from ir.resizing import covers_all, cuts


def _concat(space: Space, view: OpView) -> None:
    axis = view.int("axis")
    parts = [(name, axis) for name in view.op.inputs if name]
    space.relate((view.op.outputs[0], axis), parts, Total())


def _split(space: Space, view: OpView) -> None:
    axis = view.int("axis")
    parts = [(name, axis) for name in view.op.outputs if name]
    if len(parts) == len(view.op.outputs):
        space.relate((view.op.inputs[0], axis), parts, Total())


def _slice(space: Space, view: OpView) -> None:
    source, result = view.op.inputs[0], view.op.outputs[0]
    for axis, cut in cuts(view).items():
        if cut is not None:
            space.relate((result, axis), [(source, axis)], cut)


def _pad(space: Space, view: OpView) -> None:
    if str(view.op.attributes.get("mode", "constant")) != "constant":
        return
    source, result = view.op.inputs[0], view.op.outputs[0]
    for axis in view.ints("axes"):
        more = view.result()[axis] - view.dims(0)[axis]
        space.relate((result, axis), [(source, axis)], Total(more))


def _scaled(space: Space, view: OpView) -> None:
    """Every extent that changes is multiplied by a constant."""
    source, result = view.op.inputs[0], view.op.outputs[0]
    for axis, (old, new) in enumerate(zip(view.dims(0), view.result(), strict=True)):
        if old != new and old > 0:
            space.relate((result, axis), [(source, axis)], Scaled(new, old))


def _resize(space: Space, view: OpView) -> None:
    """A region of interest is told in numbers of its own."""
    if not (view.has(1) and view.has(2)) and view.op.attributes.get("axes") is None:
        _scaled(space, view)


def _conv(space: Space, view: OpView) -> None:
    _windows(space, view, view.dims(1)[2:])


def _pool(space: Space, view: OpView) -> None:
    kernel = view.ints("kernel_shape")
    if covers_all(view):
        name = view.op.inputs[0]
        space.explained.update((name, axis) for axis in range(2, len(view.dims(0))))
    else:
        _windows(space, view, kernel)


def _windows(space: Space, view: OpView, kernel: tuple[int, ...]) -> None:
    source = view.op.inputs[0]
    rank = len(kernel)
    strides = view.ints("strides", (1,) * rank)
    dilations = view.ints("dilations", (1,) * rank)
    pads = view.ints("pads", (0,) * (2 * rank)) or (0,) * (2 * rank)
    same = str(view.op.attributes.get("auto_pad", "NOTSET")).startswith("SAME")
    up = bool(view.int("ceil_mode"))
    for i in range(rank):
        size = dilations[i] * (kernel[i] - 1) + 1
        padding = -1 if same else pads[i] + pads[rank + i]
        window = Window(size, strides[i], padding, up)
        for result in (n for n in view.op.outputs if n):
            if strides[i] == 1 and view.dims(0)[2 + i] == view.result()[2 + i]:
                space.equate((space.dim(result, 2 + i),), (space.dim(source, 2 + i),))
                space.explained.update({(source, 2 + i), (result, 2 + i)})
            else:
                space.relate((result, 2 + i), [(source, 2 + i)], window)


def _all_positions(space: Space, view: OpView) -> None:
    name = view.op.inputs[0]
    space.explained.update((name, axis) for axis in range(2, len(view.dims(0))))


def _experts(space: Space, view: OpView) -> None:
    """What chooses the experts knows their number; every expert has as many tokens as slots."""
    sent, _ = view.op.inputs
    slots, tokens = (view.op.outputs[0], sent) if view.op.kind == DISPATCH else (
        sent, view.op.outputs[0])  # fmt: skip
    space.fix(slots, 0)
    experts, capacity = space.graph.tensors[slots].dims[:2]
    if experts * capacity == space.graph.tensors[tokens].dims[0]:
        space.equate((space.dim(tokens, 0),), (space.dim(slots, 1), space.dim(slots, 0)))


def _top_k(space: Space, view: OpView) -> None:
    """How many are chosen, and of how many, stays."""
    axis = view.int("axis", len(view.dims(0)) - 1)
    space.fix(view.op.inputs[0], axis)


def _attention(space: Space, view: OpView) -> None:
    """Numbers of heads in attributes follow the factors."""
    if len(view.dims(0)) == 3 and set(view.op.attributes) - _HEADS - {"is_causal", "scale"}:
        for name in (*view.op.inputs, *view.op.outputs):
            if name:
                space.fix(name)


_HEADS = frozenset({"q_num_heads", "kv_num_heads"})


def _source(space: Space, name: str) -> Role | None:
    """Role of the tensor that holds some indices, None if they are computed.

    Numbers of inputs are drawn so small that any row of them may be taken too.
    """
    maker, taken = space.maker(name), False
    while maker is not None and maker.kind in CARRIERS | TAKERS:
        taken = taken or maker.kind in TAKERS
        name = maker.inputs[0]
        maker = space.maker(name)
    role = space.graph.tensors[name].role if maker is None else None
    return role if role is Role.INPUT or not taken else None


def _gather(space: Space, view: OpView) -> None:
    """Indices that are computed may need all rows; others are drawn below their number."""
    if _source(space, view.op.inputs[1]) is None:
        space.fix(view.op.inputs[0], view.int("axis"))


def _elements(space: Space, view: OpView) -> None:
    axis, (data, *rows) = view.int("axis"), view.op.inputs
    result = view.op.outputs[0]
    if _source(space, rows[0]) is not Role.INPUT:
        space.fix(data, axis)
    elif view.has(2):
        space.equate((space.dim(result, axis),), (space.dim(data, axis),))
        space.equate((space.dim(rows[0], axis),), (space.dim(rows[1], axis),))
        space.explained.update((name, axis) for name in (data, result, *rows))
    else:
        space.explained.add((data, axis))


def _scatter_nd(space: Space, view: OpView) -> None:
    data, index, updates = view.op.inputs
    looked_up = view.dims(1)[-1]
    if _source(space, index) is not Role.INPUT:
        for dim in range(looked_up):
            space.fix(data, dim)
    for dim in range(len(view.dims(1)) - 1):
        space.equate((space.dim(index, dim),), (space.dim(updates, dim),))
        space.explained.update({(index, dim), (updates, dim)})


def _nothing(space: Space, view: OpView) -> None:
    """The rule says all; attributes with numbers follow the dims, or belong to what stays."""


KNOWLEDGE: Mapping[Resizing, Knowledge] = MappingProxyType(
    {
        Resizing.JOINED: _concat,
        Resizing.APART: _split,
        Resizing.BOUNDS: _slice,
        Resizing.PADDED: _pad,
        Resizing.MULTIPLIED: _scaled,
        Resizing.RESIZED: _resize,
        Resizing.KERNEL: _conv,
        Resizing.TRANSPOSED: _nothing,
        Resizing.WINDOWS: _pool,
        Resizing.POSITIONS: _all_positions,
        Resizing.SLOTS: _experts,
        Resizing.RANKED: _top_k,
        Resizing.HEADS: _attention,
        Resizing.ROWS: _gather,
        Resizing.ELEMENTS: _elements,
        Resizing.COORDINATES: _scatter_nd,
    }
)
