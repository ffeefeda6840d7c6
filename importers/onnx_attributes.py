"""From ONNX nodes of any opset to operators in one form.

Axes become non-negative attributes wherever the opset put them, shape operands vanish (dims of
results say it), and a product with a bias becomes a product and an addition.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import numpy as np

from importers import onnx_attention, onnx_images, onnx_moves, onnx_products, onnx_statistics
from importers.onnx_contrib import OPERATORS
from importers.onnx_foreign import MICROSOFT
from importers.onnx_node import Converter, NodeContext
from importers.onnx_values import Array
from ir.graph import AttributeValue, Op
from ir.ops.indexing import BY_COORDINATES, BY_ELEMENT
from ir.ops.reduction import REDUCTIONS
from ir.ops.shape import RESHAPES, UNIT_VIEWS
from ir.semantics import named


def to_ops(context: NodeContext) -> list[Op]:
    """The operators that one node stands for."""
    table = _converters("" if context.is_standard else context.node.domain)
    converter = table.get(context.node.op_type)
    return converter(context) if converter else context.same()


@cache
def _converters(domain: str) -> Mapping[str, Converter]:
    if domain == MICROSOFT:
        return {kind: each.convert for kind, each in OPERATORS.items() if each.convert}
    return {} if domain else _CONVERTERS


def converted_kinds(domain: str = "") -> frozenset[str]:
    """Kinds of a domain that are more than copied at import."""
    return frozenset(_converters(domain))


def _with_axis(default: int, operands: int | None = None) -> Converter:
    return lambda context: context.same(operands, axis=context.axis(default))


def softmax(context: NodeContext) -> list[Op]:
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
            return context.passed()
        axes = tuple(range(rank))
    normal = tuple(sorted(set(context.normal(axes, rank))))
    return [context.op(context.kind, context.node.input[:1], {"axes": normal})]


def _squeeze(context: NodeContext) -> list[Op]:
    axes = context.setting(1, "axes")
    dims = context.dims()
    if len(context.result()) > len(dims):
        normal = context.normal(axes or (), len(dims) + len(axes or ()))
    elif axes is None:
        normal = [i for i, d in enumerate(dims) if d == 1]
    else:
        normal = context.normal(axes, len(dims))
    return [context.op(context.kind, context.node.input[:1], {"axes": tuple(sorted(set(normal)))})]


def _coordinates(context: NodeContext) -> list[Op]:
    """Coordinates that are the position itself (advanced indexing with a range) let their
    dimension pass.
    """
    attributes = context.plain()
    name = context.node.input[1]
    indices = context.facts.value.get(name, context.facts.part.get(name))
    data = context.dims()
    batch = context.int("batch_dims", 0)
    pairs: dict[int, int] = {}
    sums = context.attributes.get("reduction", "none") != "none"
    if indices is not None and indices.ndim > 1 and not sums:
        for coordinate in range(indices.shape[-1]):
            axis = _identity_axis(indices[..., coordinate], data[batch + coordinate])
            if axis is not None and axis not in pairs.values():
                pairs[batch + coordinate] = axis
    if pairs:
        attributes["identity_coordinates"] = tuple(n for pair in pairs.items() for n in pair)
    return [context.op(context.kind, context.node.input, attributes)]


def gather(context: NodeContext) -> list[Op]:
    """Constant rows of something computed: `index_blocks` says which dimension of the index counts
    blocks of these rows, how many, and how long they are.
    """
    op, axis = _with_axis(0)(context)[0], context.axis(0)
    index = context.facts.value.get(context.node.input[1])
    if index is None or context.node.input[0] in context.facts.weights:
        return [op]
    blocks = _blocks(index, context.dims()[axis])
    more: dict[str, AttributeValue] = {"index_blocks": blocks} if blocks else {}
    return [replace(op, attributes={**op.attributes, **more})]


def _blocks(index: Array, rows: int) -> tuple[int, int, int] | None:
    """Dimension, number and length of the most blocks of rows from each of which an index picks
    the same ones.
    """
    for dim, size in enumerate(index.shape):
        for count in (n for n in range(size, 1, -1) if size % n == 0 and rows % n == 0):
            shape = (*index.shape[:dim], count, size // count, *index.shape[dim + 1 :])
            blocks, length = np.moveaxis(index.reshape(shape), dim, 0), rows // count
            first = blocks[0]
            starts = np.arange(count).reshape(-1, *(1,) * first.ndim) * length
            inside = first.size and first.min() >= 0 and first.max() < length
            if inside and np.array_equal(blocks, first + starts):
                return dim, count, length
    return None


def _identity_axis(values: Array, size: int) -> int | None:
    for axis, length in enumerate(values.shape):
        shape = [1] * values.ndim
        shape[axis] = length
        if length == size and np.array_equal(
            values, np.broadcast_to(np.arange(length).reshape(shape), values.shape)
        ):
            return axis
    return None


concat = _with_axis(0)
layer_norm = _with_axis(-1)
top_k = _with_axis(-1, operands=1)
split = _with_axis(0, operands=1)
hardmax = softmax
expand = tile = dropout = _data_only

_CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {
        **dict.fromkeys(REDUCTIONS, _reduce),
        **dict.fromkeys(RESHAPES, _data_only),
        **dict.fromkeys(UNIT_VIEWS, _squeeze),
        **dict.fromkeys(BY_ELEMENT, concat),
        **dict.fromkeys(BY_COORDINATES, _coordinates),
        **named(
            sys.modules[__name__], onnx_attention, onnx_images, onnx_moves, onnx_products,
            onnx_statistics,
        ),
        "CastLike": lambda c: [c.op("Cast", c.node.input[:1])],
        "Gemm": onnx_products.gemm,
        "Scatter": onnx_attention.older_scatter,
        **onnx_moves.MOVES,
    }
)  # fmt: skip
"""Converters of ONNX's own nodes: those of kinds of the catalogue bear the name of what computes
the kind."""
