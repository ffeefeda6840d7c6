"""Dims of the results of ONNX Runtime's products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import onnx

Known: TypeAlias = tuple[tuple[int, ...], int]
"""Dims and element type of a tensor."""
Operands: TypeAlias = Sequence[Known | None]


def _int(node: onnx.NodeProto, key: str, default: int = 0) -> int:
    return next((int(a.i) for a in node.attribute if a.name == key), default)


def _dims(operands: Operands, index: int) -> tuple[int, ...]:
    """Dims of an operand, () where there is none."""
    found = operands[index] if index < len(operands) else None
    return found[0] if found else ()


def _code(operands: Operands, index: int) -> int:
    found = operands[index] if index < len(operands) else None
    return found[1] if found else int(onnx.TensorProto.FLOAT)


def _product(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _fused_matmul(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    found = []
    for index, side in ((0, "A"), (1, "B")):
        dims = _dims(operands, index)
        if _int(node, f"transBatch{side}"):
            dims = (*dims[1:-1], dims[0], dims[-1])
        swap = _int(node, f"trans{side}") and len(dims) > 1
        found.append((*dims[:-2], dims[-1], dims[-2]) if swap else dims)
    return [(_product(*found), _code(operands, 0))]


def _plain_matmul(scale: int) -> Callable[[onnx.NodeProto, Operands], list[Known]]:
    """A product of whole numbers with the type of a scale."""

    def infer(_: onnx.NodeProto, operands: Operands) -> list[Known]:
        return [(_product(_dims(operands, 0), _dims(operands, 1)), _code(operands, scale))]

    return infer


def _gemm(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    left, right = _dims(operands, 0), _dims(operands, 1)
    rows, columns = left[1 if _int(node, "transA") else 0], right[0 if _int(node, "transB") else 1]
    return [((rows, columns), _code(operands, 0))]


def _rounded(_: onnx.NodeProto, operands: Operands) -> list[Known]:
    return [(np.broadcast_shapes(_dims(operands, 0), _dims(operands, 3)), _code(operands, 0))]


def _packed_matmul(node: onnx.NodeProto, operands: Operands) -> list[Known]:
    return [((*_dims(operands, 0)[:-1], _int(node, "N")), _code(operands, 0))]


PRODUCT_SHAPES: Mapping[str, Callable[[onnx.NodeProto, Operands], list[Known]]] = MappingProxyType(
    {
        **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), _fused_matmul),
        **dict.fromkeys(("FusedGemm", "GemmFastGelu"), _gemm),
        "DynamicQuantizeMatMul": _plain_matmul(0),
        "MatMulIntegerToFloat": _plain_matmul(2),
        **dict.fromkeys(("QLinearAdd", "QLinearMul"), _rounded),
        "MatMulNBits": _packed_matmul,
    }
)
