"""Convolutions, pooling, resizing, sampling and transforms: what their operators are, whatever the
opset.

`auto_pad`, `ceil_mode`, `output_shape` and `output_padding` vanish: pads are numbers, and the dims
of the result tell how many windows there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from importers.onnx_biases import with_bias
from importers.onnx_node import Converter, NodeContext
from importers.onnx_rewriting import Rewriting
from ir.graph import AttributeValue, Op
from ir.ops import BIAS_ADD, lookup

Attributes: TypeAlias = dict[str, AttributeValue]


def windows(context: NodeContext, *keys: str, weight: int | None = None) -> Attributes:
    """Attributes of sliding windows, with pads in numbers.

    Args:
        context: the node.
        keys: of more attributes.
        weight: the operand that has the kernel.
    """
    attributes = {**context.plain(), **context.kept(*keys)}
    way = str(attributes.pop("auto_pad", "NOTSET"))
    image, counts = context.dims()[2:], context.result()[2:]
    if way in {"SAME_UPPER", "SAME_LOWER"}:
        reach, strides = _reach(context, image, weight), _ints(context, "strides", image, 1)
        missing = [
            max(0, (counts[i] - 1) * strides[i] + reach[i] - size) for i, size in enumerate(image)
        ]
        attributes["pads"] = _two_sides(missing, more_behind=way == "SAME_UPPER")
    elif way == "VALID":
        attributes.pop("pads", None)
    return attributes


def _two_sides(missing: Sequence[int], *, more_behind: bool) -> tuple[int, ...]:
    """Padding in front of and behind every dimension."""
    front = [m // 2 if more_behind else m - m // 2 for m in missing]
    return (*front, *(m - f for m, f in zip(missing, front, strict=True)))


def _ints(context: NodeContext, key: str, image: Sequence[int], default: int) -> tuple[int, ...]:
    return context.attribute_ints(key) or (default,) * len(image)


def _reach(context: NodeContext, image: Sequence[int], weight: int | None) -> list[int]:
    """Positions from the first to the last that one window sees."""
    shape = () if weight is None else context.dims(weight)[2:]
    kernel = context.attribute_ints("kernel_shape") or shape
    dilations = _ints(context, "dilations", image, 1)
    return [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]


def _pool(*keys: str) -> Converter:
    return lambda context: [
        context.op(context.kind, context.node.input[:1], windows(context, *keys))
    ]


def _power(context: NodeContext) -> list[Op]:
    attributes = windows(context) if context.kind == "LpPool" else {}
    attributes["p"] = context.int("p", 2)
    return [context.op(context.kind, context.node.input[:1], attributes)]


def conv(context: NodeContext) -> list[Op]:
    product = context.op(context.kind, context.node.input[:2], windows(context, weight=1))
    return with_bias(context, product, BIAS_ADD, {"axis": 1}, lookup(context.kind).bias_operand)


def conv_transpose(context: NodeContext) -> list[Op]:
    """Pads follow from a wanted size; what they do not tell, the dims of the result do."""
    attributes = context.plain()
    way = str(attributes.pop("auto_pad", "NOTSET"))
    image, made = context.dims()[2:], context.result()[2:]
    told = context.attribute_ints("output_shape")
    if way in {"SAME_UPPER", "SAME_LOWER"} or told:
        reach, strides = _reach(context, image, 1), _ints(context, "strides", image, 1)
        more = _ints(context, "output_padding", image, 0)
        missing = [
            max(0, strides[i] * (size - 1) + more[i] + reach[i] - made[i])
            for i, size in enumerate(image)
        ]
        attributes["pads"] = _two_sides(missing, more_behind=way == "SAME_UPPER")
    elif way == "VALID":
        attributes.pop("pads", None)
    product = context.op(context.kind, context.node.input[:2], attributes)
    return with_bias(context, product, BIAS_ADD, {"axis": 1}, lookup(context.kind).bias_operand)


def deform_conv(context: NodeContext) -> list[Op]:
    """The bias is added behind: operands are data, weight, offset and mask."""
    names = [*context.node.input[:3], *context.node.input[4:5]]
    product = context.op(context.kind, names, windows(context, "offset_group", weight=1))
    return with_bias(context, product, BIAS_ADD, {"axis": 1}, lookup(context.kind).bias_operand)


def _floats(context: NodeContext, index: int) -> tuple[float, ...]:
    """Numbers of a constant operand; none if it is absent, empty or not constant."""
    value = context.facts.value.get(context.node.input[index]) if context.has(index) else None
    return () if value is None else tuple(float(v) for v in np.reshape(value, -1))


def resize(context: NodeContext) -> list[Op]:
    """Scales are kept where they are not what the sizes say, a region where it is read."""
    dims, result, rank = context.dims(), context.result(), len(context.dims())
    attributes = context.kept(
        "mode", "coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a",
        "exclude_outside", "extrapolation_value", "antialias",
    )  # fmt: skip
    if attributes.get("mode") in {"bilinear", "trilinear"}:
        attributes["mode"] = "linear"
    old = context.kind == "Resize" and context.opset < 11
    if old:
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    axes = context.normal(context.attribute_ints("axes") or range(rank), rank)
    ratios = [wanted / size if size else 1.0 for wanted, size in zip(result, dims, strict=True)]
    scales = list(ratios)
    for axis, scale in zip(axes, _scales(context, axes, old=old), strict=False):
        if not math.isclose(scale, ratios[axis], rel_tol=1e-6):
            scales[axis] = scale
    if scales != ratios:
        attributes["scales"] = tuple(scales)
    region = _floats(context, 1) if not old else ()
    crops = attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if crops and len(region) == 2 * len(axes):
        starts, ends = [0.0] * rank, [1.0] * rank
        for place, axis in enumerate(axes):
            starts[axis], ends[axis] = region[place], region[len(axes) + place]
        attributes["roi"] = (*starts, *ends)
    return [context.op(context.kind, context.node.input[:1], attributes)]


def _scales(context: NodeContext, axes: Sequence[int], *, old: bool) -> tuple[float, ...]:
    """Scale of each axis; none where sizes alone tell it."""
    if context.kind == "Upsample" and not context.has(1):
        value = context.attributes.get("scales")
        found = value if isinstance(value, list | tuple) else ()
        return tuple(float(v) for v in found)
    scales = _floats(context, 1 if old or context.kind == "Upsample" else 2)
    if scales:
        return scales
    policy = context.attributes.get("keep_aspect_ratio_policy", "stretch")
    sizes = context.operand_ints(3) if context.has(3) else None
    if policy == "stretch" or sizes is None:
        return ()
    each = [size / context.dims()[axis] for size, axis in zip(sizes, axes, strict=True)]
    return ((min if policy == "not_larger" else max)(each),) * len(axes)


def grid_sample(context: NodeContext) -> list[Op]:
    attributes = context.kept("padding_mode", "align_corners")
    mode = str(context.attributes.get("mode", "linear"))
    attributes["mode"] = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return [context.op(context.kind, context.node.input[:2], attributes)]


def _kept(operands: int, *keys: str) -> Converter:
    return lambda context: [
        context.op(context.kind, context.node.input[:operands], context.kept(*keys))
    ]


def roi_align(context: NodeContext) -> list[Op]:
    """Before opset 16 regions were not moved by half an element."""
    attributes = context.kept(
        "mode", "sampling_ratio", "spatial_scale", "coordinate_transformation_mode"
    )
    if context.opset < 16:
        attributes["coordinate_transformation_mode"] = "output_half_pixel"
    return [context.op(context.kind, context.node.input[:3], attributes)]


def col_to_image(context: NodeContext) -> list[Op]:
    attributes = context.kept("dilations", "pads", "strides")
    attributes["kernel_shape"] = context.setting(2, "block_shape") or ()
    return [context.op(context.kind, context.node.input[:1], attributes)]


def dft(context: NodeContext) -> list[Op]:
    """The axis was an attribute before opset 20; the length is an attribute here."""
    dims = context.dims()
    axis = context.setting(2, "axis") or (1 if context.opset < 20 else -2,)
    place = context.normal(axis[:1], len(dims))[0]
    inverse, half = context.int("inverse", 0), context.int("onesided", 0)
    usual = 2 * (dims[place] - 1) if inverse and half else dims[place]
    length = (context.setting(1, "dft_length") or (usual,))[0]
    attributes: Attributes = {"axis": place, "length": length}
    attributes |= {"inverse": inverse, "onesided": half}
    return [context.op(context.kind, context.node.input[:1], attributes)]


def stft(context: NodeContext) -> list[Op]:
    """Step and length become attributes; without a window all elements of a frame count alike. A
    real signal may leave out its last dimension, of one.
    """
    step = context.setting(1, "frame_step") or (1,)
    usual = context.dims(2)[0] if context.has(2) else context.dims()[1]
    length = (context.setting(3, "frame_length") or (usual,))[0]
    half = context.int("onesided", 1)
    # ONNX's inference counts a last frame that is not complete; its operator does not make it.
    output, dims = context.node.output[0], context.dims()
    frames = (dims[1] - length) // step[0] + 1
    bins = length // 2 + 1 if half else length
    context.facts.learn(output, (dims[0], frames, bins, 2), context.facts.code[output])
    work, signal = Rewriting(context), context.node.input[0]
    if len(dims) == 2:
        signal = work.unsqueeze(signal, 2)
    names = [n for n in (signal, *context.node.input[2:3]) if n]
    frame = {"frame_step": step[0], "frame_length": length}
    work.write(context.kind, names, context.result(), outputs=[output], **frame, onesided=half)
    return work.written


def max_unpool(context: NodeContext) -> list[Op]:
    return [context.op(context.kind, context.node.input[:2], context.plain())]


max_pool = _pool("storage_order")
average_pool = _pool("count_include_pad")
lp_pool = global_norm = _power
affine_grid = _kept(1, "align_corners")
max_roi_pool = _kept(2, "spatial_scale")
