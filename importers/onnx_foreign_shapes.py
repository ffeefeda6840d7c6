"""Dims and element types of the results of operators that ONNX has no schema of."""

from __future__ import annotations

import onnx

from importers.errors import MISFITS
from importers.onnx_foreign import MICROSOFT, Inference, Known, Operands
from importers.operators import broadcast_dims, product_dims

_FLOAT, _INT32 = int(onnx.TensorProto.FLOAT), int(onnx.TensorProto.INT32)


def _int(node: onnx.NodeProto, key: str, default: int = 0) -> int:
    return next((int(a.i) for a in node.attribute if a.name == key), default)


def _dims(operands: Operands, index: int) -> tuple[int, ...]:
    """Dims of an operand, () where there is none."""
    found = operands[index] if index < len(operands) else None
    return found[0] if found else ()


def _code(operands: Operands, index: int = 0) -> int:
    found = operands[index] if index < len(operands) else None
    return found[1] if found else _FLOAT


def foreign(infer: Inference) -> Inference:
    """Nothing for ONNX's own operators of these names, and for operands that do not fit."""

    def fitting(node: onnx.NodeProto, operands: Operands) -> list[Known]:
        if node.domain != MICROSOFT:
            return []
        try:
            return infer(node, operands)
        except MISFITS:
            return []

    return fitting


def like_first(results: int) -> Inference:
    """Dims and type of the first operand, for so many results."""
    return lambda _, operands: [(_dims(operands, 0), _code(operands))] * results


def skip_norm(_: onnx.NodeProto, operands: Operands) -> list[Known]:
    """The result, both statistics, and what was normalised."""
    dims, code = _dims(operands, 0), _code(operands)
    statistic = ((*dims[:-1], 1), _FLOAT)
    return [(dims, code), statistic, statistic, (dims, code)]


def simple_norm(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    """The result and the statistic."""
    dims = _dims(operands, 0)
    axis = _int(node, "axis", -1) % max(len(dims), 1)
    return [(dims, _code(operands)), ((*dims[:axis], *[1] * (len(dims) - axis)), _FLOAT)]


def embed_norm(_: onnx.NodeProto, operands: Operands) -> list[Known]:
    """The result, places of the mask, and what was normalised."""
    ids, words = operands[0], operands[2] if len(operands) > 2 else None
    if ids is None or words is None:
        return []
    embedded = ((*ids[0], words[0][-1]), words[1])
    return [embedded, ((ids[0][0],), _INT32), embedded]


@foreign
def attention(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    """With merged weights: the result, and keys and values together."""
    code = _code(operands)
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


def multi_head(past_at: int) -> Inference:
    """The result, keys and values that are handed on, and the scores."""

    def infer(node: onnx.NodeProto, operands: Operands) -> list[Known]:
        code = _code(operands)
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

    return foreign(infer)


@foreign
def grouped(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    """New rows behind those of the cache, unless the model notes otherwise."""
    code = _code(operands)
    heads, groups = _int(node, "num_heads", 1), _int(node, "kv_num_heads", 1)
    (batch, rows, wide), key, past = (_dims(operands, i) for i in (0, 1, 3))
    width = wide // (heads if key else heads + 2 * groups)
    total = (past[2] if past else 0) + (key[1] if key else rows)
    cache = ((batch, groups, total, width), code)
    return [((batch, rows, heads * width), code), cache, cache]


@foreign
def packed(_: onnx.NodeProto, operands: Operands) -> list[Known]:
    """Rows of several sequences behind one another."""
    code = _code(operands)
    query, value = _dims(operands, 0), _dims(operands, 2)
    return [((query[0], value[1] if value else query[1] * query[3]), code)]


def fused_matmul(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    """Operands may be turned."""
    found = []
    for index, side in ((0, "A"), (1, "B")):
        dims = _dims(operands, index)
        if _int(node, f"transBatch{side}"):
            dims = (*dims[1:-1], dims[0], dims[-1])
        swap = _int(node, f"trans{side}") and len(dims) > 1
        found.append((*dims[:-2], dims[-1], dims[-2]) if swap else dims)
    return [(product_dims(*found), _code(operands))]


def plain_matmul(scale: int) -> Inference:
    """A product of whole numbers with the type of a scale."""

    def infer(_: onnx.NodeProto, operands: Operands) -> list[Known]:
        return [(product_dims(_dims(operands, 0), _dims(operands, 1)), _code(operands, scale))]

    return infer


def gemm(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    """Of matrices, either of which may be turned."""
    left, right = _dims(operands, 0), _dims(operands, 1)
    rows, columns = left[1 if _int(node, "transA") else 0], right[0 if _int(node, "transB") else 1]
    return [((rows, columns), _code(operands))]


def rounded(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    """Element by element, of quantised numbers."""
    return [(broadcast_dims(node.op_type, _dims(operands, 0), _dims(operands, 3)), _code(operands))]


def packed_matmul(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    """The node says how many columns there are."""
    return [((*_dims(operands, 0)[:-1], _int(node, "N")), _code(operands))]
