"""Element-wise operators and those that move elements: everything that is needed to run them
becomes an attribute, and what is a chain of simpler operators becomes that chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
import onnx
from onnx import numpy_helper

from importers.onnx_node import Converter, NodeContext
from importers.onnx_rewriting import Rewriting
from importers.parameters import parametrised
from ir.graph import AttributeValue, Op


def _number(value: object) -> int | float | None:
    """A single number of a constant, or of an attribute."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0].item()
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None


def _operand_number(context: NodeContext, index: int) -> int | float | None:
    return _number(context.facts.value.get(context.node.input[index]))


@parametrised
def _keeping(context: NodeContext, /, *keys: str, **defaults: AttributeValue) -> list[Op]:
    """More attributes than the usual ones, some of them with ONNX's default."""
    known = {k: _number(context.attributes.get(k, defaults.get(k))) for k in (*keys, *defaults)}
    texts = {k: v for k in keys if isinstance(v := context.attributes.get(k), str)}
    more: dict[str, AttributeValue] = {k: v for k, v in known.items() if v is not None}
    return context.same(None, **more, **texts)


def _regrouped(context: NodeContext, blocks: tuple[int, ...], order: tuple[int, ...]) -> list[Op]:
    """Dimensions are cut into blocks, put in order, and merged again."""
    work = Rewriting(context)
    cut = work.step("blocks", blocks).reshape(work.operand(0), *blocks)
    turned = work.step("order", tuple(blocks[i] for i in order)).transpose(cut, *order)
    work.last().reshape(turned, *context.result())
    return work.written


def _depth_to_space(context: NodeContext) -> list[Op]:
    size = context.int("blocksize", 1)
    batch, channels, *space = context.dims()
    left = channels // size**2
    if context.attributes.get("mode", "DCR") == "DCR":
        return _regrouped(context, (batch, size, size, left, *space), (0, 3, 4, 1, 5, 2))
    return _regrouped(context, (batch, left, size, size, *space), (0, 1, 4, 2, 5, 3))


def _space_to_depth(context: NodeContext) -> list[Op]:
    size = context.int("blocksize", 1)
    batch, channels, height, width = context.dims()
    blocks = (batch, channels, height // size, size, width // size, size)
    return _regrouped(context, blocks, (0, 3, 5, 1, 2, 4))


def _padded(
    context: NodeContext, inputs: Iterable[str], pads: Mapping[int, tuple[int, int]],
    more: dict[str, AttributeValue],
) -> list[Op]:  # fmt: skip
    """A padding of some axes; one of nothing is an identity. Negative padding crops."""
    moved = {a: p for a, p in sorted(pads.items()) if p != (0, 0)}
    if not moved:
        return context.passed()
    sizes = (*(p[0] for p in moved.values()), *(p[1] for p in moved.values()))
    known: dict[str, AttributeValue] = {"axes": tuple(moved), "pads": sizes, **more}
    return [context.op("Pad", [*inputs], known)]


def pad(context: NodeContext) -> list[Op]:
    """Axes with padding stay whole, also where padding and cropping keep the size."""
    rank = len(context.dims())
    pads = context.operand_ints(1) or context.attribute_ints("pads")
    axes = context.operand_ints(3) or tuple(range(rank))
    mode = {"mode": context.attributes.get("mode", "constant")}
    more: dict[str, AttributeValue] = {k: v for k, v in mode.items() if isinstance(v, str)}
    if (
        pads is None
        or len(pads) != 2 * len(axes)
        or (context.has(3) and not context.operand_ints(3))
    ):
        every: dict[str, AttributeValue] = {"axes": tuple(range(rank)), **more}
        return [context.op(context.kind, context.node.input, every)]
    half, places = len(axes), context.normal(axes, rank)
    inputs = [context.node.input[0]]
    value = (
        _operand_number(context, 2) if context.has(2) else _number(context.attributes.get("value"))
    )
    if value is not None:
        more["value"] = value
    elif context.has(2):
        inputs.append(context.node.input[2])
    around = {a: (pads[i], pads[half + i]) for i, a in enumerate(places)}
    return _padded(context, inputs, around, more)


def _center_crop_pad(context: NodeContext) -> list[Op]:
    """A padding, negative where the result is smaller; the odd element is at the end."""
    around = {}
    for axis, (old, new) in enumerate(zip(context.dims(), context.result(), strict=True)):
        before = abs(new - old) // 2
        after = abs(new - old) - before
        around[axis] = (before, after) if new > old else (-before, -after)
    return _padded(context, context.node.input[:1], around, {"mode": "constant"})


def clip(context: NodeContext) -> list[Op]:
    """Bounds that are constants become attributes; the others stay operands."""
    inputs, attributes = [context.node.input[0], "", ""], dict[str, AttributeValue]()
    for index, key in ((1, "min"), (2, "max")):
        given = context.has(index)
        value = _operand_number(context, index) if given else _number(context.attributes.get(key))
        if value is not None:
            attributes[key] = value
        elif given:
            inputs[index] = context.node.input[index]
    while not inputs[-1]:
        inputs.pop()
    return [context.op(context.kind, inputs, attributes)]


def part(context: NodeContext) -> list[Op]:
    """Only axes that lose elements or change their order are cut; a slice of everything is an
    identity. Bounds that are computed stay operands.
    """
    source, result = context.dims(), context.result()
    operands = [context.operand_ints(i) for i in range(1, 5)]
    if any(context.has(i + 1) and value is None for i, value in enumerate(operands)):
        every: dict[str, AttributeValue] = {"axes": tuple(range(len(source)))}
        return [context.op(context.kind, context.node.input, every)]
    starts = operands[0] or context.attribute_ints("starts") or ()
    ends = operands[1] or context.attribute_ints("ends") or ()
    axes = operands[2] or context.attribute_ints("axes") or tuple(range(len(starts)))
    steps = operands[3] or (1,) * len(starts)
    places = context.normal(axes, len(source))
    moved = {a for a, s in zip(places, steps, strict=True) if s != 1 or source[a] != result[a]}
    if not moved:
        return context.passed()
    known: dict[str, AttributeValue] = {
        "axes": tuple(sorted(moved)),
        "slice_axes": tuple(places),
        "starts": starts,
        "ends": ends,
        "steps": steps,
    }
    return [context.op(context.kind, context.node.input[:1], known)]


def triangle(context: NodeContext) -> list[Op]:
    """The diagonal is an attribute unless it is computed."""
    upper: dict[str, AttributeValue] = {"upper": context.int("upper", 1)}
    diagonal = _operand_number(context, 1) if context.has(1) else 0
    if diagonal is None:
        return [context.op(context.kind, context.node.input, upper)]
    return [context.op(context.kind, context.node.input[:1], {**upper, "k": int(diagonal)})]


def one_hot(context: NodeContext) -> list[Op]:
    """The depth is told by the result."""
    axis = context.normal([context.int("axis", -1)], len(context.dims()) + 1)[0]
    return [
        context.op(context.kind, [context.node.input[0], context.node.input[2]], {"axis": axis})
    ]


def _along_if_given(context: NodeContext) -> list[Op]:
    """Without an axis the operand is a flat list."""
    more: dict[str, AttributeValue] = {}
    if "axis" in context.attributes:
        more["axis"] = context.axis(0)
    if context.kind == "Unique":
        more["sorted"] = context.int("sorted", 1)
    return context.same(None, **more)


def filled(context: NodeContext) -> list[Op]:
    fill = context.attributes.get("value")
    value = numpy_helper.to_array(fill) if isinstance(fill, onnx.TensorProto) else np.zeros(1)
    return context.same(None, value=_number(np.asarray(value)) or 0)


def _swiglu(context: NodeContext) -> list[Op]:
    """A gate that is weighed by its sigmoid, times a value."""
    work, alpha = Rewriting(context), _number(context.attributes.get("alpha", 1.0))
    slope = 1.0 if alpha is None else alpha
    gate = work.step("gate", context.dims()).swish(work.operand(0), alpha=slope)
    work.last().mul(gate, work.operand(1))
    return work.written


remainder = _keeping(fmod=0)
is_infinite = _keeping(detect_negative=1, detect_positive=1)
selu = _keeping("gamma")
shrink = _keeping(lambd=0.5, bias=0.0)
unit_matrix = _keeping(k=0)
hann = hamming = blackman = _keeping(periodic=1)
normal = _keeping(mean=0.0, scale=1.0)
uniform = _keeping(low=0.0, high=1.0)
multinomial = _keeping(sample_size=1)

MOVES: Mapping[str, Converter] = MappingProxyType(
    {
        "BitShift": _keeping("direction"),
        "SwiGLU": _swiglu,
        "CenterCropPad": _center_crop_pad,
        "DepthToSpace": _depth_to_space,
        "SpaceToDepth": _space_to_depth,
        "ReverseSequence": _keeping(batch_axis=1, time_axis=0),
        **dict.fromkeys(("Compress", "Unique"), _along_if_given),
    }
)
"""Nodes that become others, and kinds that have no name of their own for what computes them."""
