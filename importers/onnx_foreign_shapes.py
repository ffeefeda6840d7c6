"""Dims and element types of the results of operators that ONNX has no schema of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import onnx

from importers.onnx_attention_shapes import ATTENTION_SHAPES
from importers.onnx_product_shapes import PRODUCT_SHAPES

Known: TypeAlias = tuple[tuple[int, ...], int]
"""Dims and element type of a tensor."""
Inference: TypeAlias = Callable[[onnx.NodeProto, Sequence[Known | None]], list[Known]]

_DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})
_FLOAT, _INT32 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32


def foreign_types(
    node: onnx.NodeProto, operands: Sequence[Known | None]
) -> Mapping[str, onnx.TypeProto]:
    """Types of the results of a node as far as they are known here.

    Args:
        node: the node.
        operands: None for an absent one.
    """
    infer = _INFERENCES.get(node.op_type) if node.domain in _DOMAINS else None
    if infer is None or not operands or operands[0] is None:
        return {}
    found = infer(node, operands)
    return {
        name: onnx.helper.make_tensor_type_proto(code, list(dims))
        for name, (dims, code) in zip(node.output, found, strict=False)
        if name
    }


def _like_first(_: onnx.NodeProto, operands: Sequence[Known | None]) -> list[Known]:
    first = operands[0]
    return [first, first] if first else []


def _skip_norm(_: onnx.NodeProto, operands: Sequence[Known | None]) -> list[Known]:
    if operands[0] is None:
        return []
    dims, _code = operands[0]
    statistic = ((*dims[:-1], 1), int(_FLOAT))
    return [operands[0], statistic, statistic, operands[0]]


def _simple_norm(node: onnx.NodeProto, operands: Sequence[Known | None]) -> list[Known]:
    if operands[0] is None:
        return []
    dims, _code = operands[0]
    axis = next((a.i for a in node.attribute if a.name == "axis"), -1) % max(len(dims), 1)
    statistic = (*dims[:axis], *[1] * (len(dims) - axis))
    return [operands[0], (statistic, int(_FLOAT))]


def _embed_norm(_: onnx.NodeProto, operands: Sequence[Known | None]) -> list[Known]:
    ids, words = operands[0], operands[2] if len(operands) > 2 else None
    if ids is None or words is None:
        return []
    embedded = ((*ids[0], words[0][-1]), words[1])
    return [embedded, ((ids[0][0],), int(_INT32)), embedded]


_INFERENCES: Mapping[str, Inference] = MappingProxyType(
    {
        **ATTENTION_SHAPES,
        **PRODUCT_SHAPES,
        **dict.fromkeys(("GroupNorm", "SkipGroupNorm", "BiasSoftmax"), _like_first),
        **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_norm),
        "SimplifiedLayerNormalization": _simple_norm,
        "EmbedLayerNormalization": _embed_norm,
    }
)
