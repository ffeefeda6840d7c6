"""Dims of the results of ONNX Runtime's attention and experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import onnx

Known: TypeAlias = tuple[tuple[int, ...], int]
"""Dims and element type of a tensor."""
MISFITS = (ArithmeticError, LookupError, ValueError)
"""What comes of operands that are not those of the schema: their number, ranks or sizes."""
Operands: TypeAlias = Sequence[Known | None]


def _int(node: onnx.NodeProto, key: str, default: int = 0) -> int:
    return next((int(a.i) for a in node.attribute if a.name == key), default)


def _dims(operands: Operands, index: int) -> tuple[int, ...]:
    """Dims of an operand, () where there is none."""
    found = operands[index] if index < len(operands) else None
    return found[0] if found else ()


def _attention(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    code = operands[0][1] if operands[0] else 0
    (batch, rows, _), weights = _dims(operands, 0), _dims(operands, 1)
    sizes = next((list(a.ints) for a in node.attribute if a.name == "qkv_hidden_sizes"), [])
    value = sizes[2] if sizes else weights[1] // 3
    heads, past = _int(node, "num_heads", 1), _dims(operands, 4)
    earlier = past[3] if past else 0
    shared = bool(_int(node, "past_present_share_buffer"))
    total = earlier if shared and past else earlier + rows
    return [
        ((batch, rows, value), code),
        ((2, batch, heads, total, (sizes[0] if sizes else value) // heads), code),
    ]


def _multi_head(past_at: int) -> Callable[[onnx.NodeProto, Operands], list[Known]]:
    def infer(node: onnx.NodeProto, operands: Operands) -> list[Known]:
        code = operands[0][1] if operands[0] else 0
        heads, dims = _int(node, "num_heads", 1), _dims(operands, 0)
        key, value, past = _dims(operands, 1), _dims(operands, 2), _dims(operands, past_at)
        batch, rows = dims[:2]
        wide = dims[2] * dims[4] if len(dims) == 5 else dims[2] // (1 if key else 3)
        total = rows
        tall = wide
        if len(key) == 5:
            total = key[1]
        elif key:
            total = key[1] if len(key) == 3 else key[2]
            tall = value[2] if len(value) == 3 else value[1] * value[3]
        elif len(dims) == 3:
            tall = dims[2] - 2 * wide
        if past:
            total = past[2] if _int(node, "past_present_share_buffer") else total + past[2]
        caches = [((batch, heads, total, w // heads), code) for w in (wide, tall)]
        return [((batch, rows, tall), code), *caches, ((batch, heads, rows, total), code)]

    return infer


def _grouped(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    """New rows behind those of the cache, unless the model notes otherwise."""
    code = operands[0][1] if operands[0] else 0
    heads, groups = _int(node, "num_heads", 1), _int(node, "kv_num_heads", 1)
    (batch, rows, wide), key, past = (_dims(operands, i) for i in (0, 1, 3))
    width = wide // (heads if key else heads + 2 * groups)
    total = (past[2] if past else 0) + (key[1] if key else rows)
    cache = ((batch, groups, total, width), code)
    return [((batch, rows, heads * width), code), cache, cache]


def _packed(_: onnx.NodeProto, operands: Operands) -> list[Known]:
    code = operands[0][1] if operands[0] else 0
    query, value = _dims(operands, 0), _dims(operands, 2)
    return [((query[0], value[1] if value else query[1] * query[3]), code)]


def _foreign(
    infer: Callable[[onnx.NodeProto, Operands], list[Known]],
) -> Callable[[onnx.NodeProto, Operands], list[Known]]:
    """Nothing for ONNX's own operators of these names, and for operands that do not fit."""

    def fitting(node: onnx.NodeProto, operands: Operands) -> list[Known]:
        if node.domain != "com.microsoft":
            return []
        try:
            return infer(node, operands)
        except MISFITS:
            return []

    return fitting


def _first(_: onnx.NodeProto, operands: Operands) -> list[Known]:
    return [operands[0]] if operands[0] else []


ATTENTION_SHAPES: Mapping[str, Callable[[onnx.NodeProto, Operands], list[Known]]] = (
    MappingProxyType(
        {
            "Attention": _foreign(_attention),
            "MultiHeadAttention": _foreign(_multi_head(6)),
            "DecoderMaskedMultiHeadAttention": _foreign(_multi_head(5)),
            "GroupQueryAttention": _foreign(_grouped),
            "PackedMultiHeadAttention": _foreign(_packed),
            **dict.fromkeys(("RotaryEmbedding", "MoE", "QMoE"), _foreign(_first)),
        }
    )
)
