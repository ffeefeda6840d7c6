"""From ONNX nodes of any opset to operators in one form.

Axes become non-negative attributes wherever the opset put them, shape operands vanish (dims of
results say it), and a product with a bias becomes a product and an addition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from importers.onnx_node import NodeContext
from importers.onnx_values import Array
from ir.graph import AttributeValue, Op

Converter = Callable[[NodeContext], list[Op]]


def to_ops(context: NodeContext) -> list[Op]:
    """The operators that one node stands for."""
    converter = _CONVERTERS.get(context.node.op_type) if context.is_standard else None
    return converter(context) if converter else context.same()


def _with_axis(default: int, operands: int | None = None) -> Converter:
    return lambda context: context.same(operands, axis=context.axis(default))


def _softmax(context: NodeContext) -> list[Op]:
    """Before opset 13 all dimensions from `axis` on are one."""
    axis = context.axis(1 if context.opset < 13 else -1)
    attributes: dict[str, AttributeValue] = {"axis": axis}
    if context.opset < 13 and any(d > 1 for d in context.dims()[axis + 1 :]):
        attributes["to_end"] = 1
    return [context.op(context.kind, context.node.input[:1], attributes)]


def _data_only(context: NodeContext) -> list[Op]:
    """Shape, axes or sizes in the other operands are told by the result."""
    return context.same(1)


def _reduce(context: NodeContext) -> list[Op]:
    axes = context.setting(1, "axes")
    rank = len(context.dims())
    if not axes:
        if context.int("noop_with_empty_axes", 0):
            return [context.op("Identity", context.node.input[:1])]
        axes = tuple(range(rank))
    normal = tuple(sorted(set(context.normal(axes, rank))))
    return [context.op(context.kind, context.node.input[:1], {"axes": normal})]


def _squeeze(context: NodeContext) -> list[Op]:
    axes = context.setting(1, "axes")
    dims = context.dims()
    if context.kind == "Unsqueeze":
        normal = context.normal(axes or (), len(dims) + len(axes or ()))
    elif axes is None:
        normal = [i for i, d in enumerate(dims) if d == 1]
    else:
        normal = context.normal(axes, len(dims))
    return [context.op(context.kind, context.node.input[:1], {"axes": tuple(sorted(set(normal)))})]


def _slice(context: NodeContext) -> list[Op]:
    """Only axes that lose elements or change their order are cut; a slice of everything is an
    identity.
    """
    source, result = context.dims(), context.result()
    operands = [context.operand_ints(i) for i in range(1, 5)]
    starts = operands[0] or context.attribute_ints("starts") or ()
    ends = operands[1] or context.attribute_ints("ends") or ()
    axes = operands[2] or context.attribute_ints("axes") or tuple(range(len(starts)))
    steps = operands[3] or (1,) * len(starts)
    if any(context.has(i + 1) and value is None for i, value in enumerate(operands)):
        axes, steps = tuple(range(len(source))), (0,) * len(source)
    places = context.normal(axes, len(source))
    moved = {a for a, s in zip(places, steps, strict=True) if s != 1 or source[a] != result[a]}
    if not moved:
        return [context.op("Identity", context.node.input[:1])]
    known: dict[str, AttributeValue] = {
        "axes": tuple(sorted(moved)),
        "slice_axes": tuple(places),
        "starts": starts,
        "ends": ends,
        "steps": steps,
    }
    return [context.op("Slice", context.node.input[:1], {k: v for k, v in known.items() if v})]


def _pad(context: NodeContext) -> list[Op]:
    """Axes with padding stay whole, also where padding and cropping keep the size."""
    dims = context.dims()
    pads = context.operand_ints(1) or context.attribute_ints("pads")
    axes = context.operand_ints(3) or tuple(range(len(dims)))
    if pads is None or len(pads) != 2 * len(axes):
        return context.same(1, axes=tuple(range(len(dims))))
    places = context.normal(axes, len(dims))
    half = len(axes)
    moved = {a for i, a in enumerate(places) if pads[i] or pads[half + i]}
    if not moved:
        return [context.op("Identity", context.node.input[:1])]
    attributes = {k: v for k, v in context.plain().items() if k != "pads"}
    attributes["axes"] = tuple(sorted(moved))
    return [context.op("Pad", context.node.input[:1], attributes)]


def _with_bias(context: NodeContext, product: Op, add: str, attributes: dict[str, int]) -> list[Op]:
    """A product, and the addition of its third operand if there is one."""
    if not context.has(2):
        return [product]
    between = context.new_tensor("/product")
    bias = Op(
        f"{context.name}/bias",
        add,
        (between, context.node.input[2]),
        product.outputs,
        attributes,
        context.scope,
    )
    return [replace(product, outputs=(between,)), bias]


def _gemm(context: NodeContext) -> list[Op]:
    flags = (("trans_a", "transA"), ("trans_b", "transB"))
    attributes: dict[str, AttributeValue] = {k: 1 for k, flag in flags if context.int(flag, 0)}
    product = context.op("MatMul", context.node.input[:2], attributes)
    return _with_bias(context, product, "Add", {})


def _conv(context: NodeContext) -> list[Op]:
    product = context.op(context.kind, context.node.input[:2], context.plain())
    return _with_bias(context, product, "BiasAdd", {"axis": 1})


def _gather_nd(context: NodeContext) -> list[Op]:
    """Coordinates that are the position itself (advanced indexing with a range) let their
    dimension pass.
    """
    attributes = context.plain()
    indices = context.facts.value.get(context.node.input[1])
    data = context.dims()
    batch = context.int("batch_dims", 0)
    pairs: dict[int, int] = {}
    if indices is not None and indices.ndim > 1:
        for coordinate in range(indices.shape[-1]):
            axis = _identity_axis(indices[..., coordinate], data[batch + coordinate])
            if axis is not None and axis not in pairs.values():
                pairs[batch + coordinate] = axis
    if pairs:
        attributes["identity_coordinates"] = tuple(n for pair in pairs.items() for n in pair)
    return [context.op("GatherND", context.node.input, attributes)]


def _identity_axis(values: Array, size: int) -> int | None:
    for axis, length in enumerate(values.shape):
        shape = [1] * values.ndim
        shape[axis] = length
        if length == size and np.array_equal(
            values, np.broadcast_to(np.arange(length).reshape(shape), values.shape)
        ):
            return axis
    return None


def _batch_norm(context: NodeContext) -> list[Op]:
    """Statistics of the batch are results of the training form alone."""
    op = context.same()[0]
    return [op if context.int("training_mode", 0) else replace(op, outputs=op.outputs[:1])]


def _cum_sum(context: NodeContext) -> list[Op]:
    axes = context.setting(1, "axis") or (0,)
    return context.same(1, axis=context.normal(axes[:1], len(context.dims()))[0])


_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
_VIEWS = ("Reshape", "Flatten", "Expand", "Tile", "Resize", "Upsample", "Clip", "Dropout")
_NORMS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
_ALONG = ("Gather", "GatherElements", "ScatterElements", "Concat", "ArgMax", "ArgMin")

_CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {
        **dict.fromkeys(_REDUCTIONS, _reduce),
        **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
        **dict.fromkeys(_VIEWS, _data_only),
        **dict.fromkeys(("Squeeze", "Unsqueeze"), _squeeze),
        **dict.fromkeys(_ALONG, _with_axis(0)),
        **dict.fromkeys(_NORMS, _with_axis(-1)),
        "TopK": _with_axis(-1, operands=1),
        "Split": _with_axis(0, operands=1),
        "CastLike": lambda c: [c.op("Cast", c.node.input[:1])],
        "Slice": _slice,
        "Pad": _pad,
        "Gemm": _gemm,
        "Conv": _conv,
        "ConvTranspose": _conv,
        "GatherND": _gather_nd,
        "BatchNormalization": _batch_norm,
        "CumSum": _cum_sum,
    }
)
