"""Quantised numbers: from floating point and back, and products of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from executors.placement import Array
from executors.semantics.convolution import conv
from ir.semantics.arrays import np as anp
from ir.semantics.call import Call

Operands: TypeAlias = Sequence[Array | None]


def dequantise(call: Call) -> list[Array]:
    """Scale times the distance from the zero point."""
    data = call[0].astype(anp.float64)
    if call.has(2):
        data = data - _stretched(call, call[2].astype(anp.float64))
    return [data * _stretched(call, call[1])]


def _stretched(call: Call, values: Array) -> Array:
    """One number for each element: of all, of a slice along the axis, or of a block."""
    dims, axis, block = call[0].shape, call.int("axis"), call.int("block_size")
    if values.size == 1:
        return anp.reshape(values, ())
    if not block:
        return anp.reshape(values, [-1 if d == axis else 1 for d in range(len(dims))])
    rows = anp.arange(dims[axis]) // block
    return values[(*(slice(None),) * axis, rows)]


def packed_matmul(call: Call) -> list[Array]:
    """A product with weights of a few bits, each block of which has a scale and a zero point."""
    packed, bits, block = call[1], call.int("bits", 4), call.int("block_size", 32)
    rows, blocks = packed.shape[:2]
    weight = _unpacked(packed, bits)[..., :block]
    scale = anp.reshape(call[2], (rows, blocks, 1))
    point = anp.full((rows, blocks), 1 << (bits - 1))
    if call.has(3):
        point = _unpacked(call[3].reshape(rows, -1), bits)[:, :blocks]
    matrix = anp.reshape((weight - point[..., None]) * scale, (rows, blocks * block))
    return [anp.matmul(call[0], anp.swapaxes(matrix[:, : call[0].shape[-1]], 0, 1))]


def _unpacked(packed: Array, bits: int) -> Array:
    """Numbers of a few bits each, the lowest of a byte first."""
    shifts = anp.arange(0, 8, bits)
    found = (packed.astype(anp.int64)[..., None] >> shifts) & ((1 << bits) - 1)
    return found.reshape(*packed.shape[:-1], -1)


def quantise(call: Call) -> list[Array]:
    """Rounded to whole numbers, or to short floating ones; what is too large becomes the limit."""
    values, dtype = call[0] / _stretched(call, call[1]), np.dtype(call.result_dtypes[0])
    point = _stretched(call, call[2]) if call.has(2) else None
    library: Any = ml_dtypes
    try:
        limits = library.iinfo(dtype)
    except ValueError:
        most = float(library.finfo(dtype).max)
        return [np.clip(values, -most, most).astype(dtype)]
    rounded = np.rint(values) if point is None else np.rint(values) + point
    return [np.clip(rounded, limits.min, limits.max).astype(dtype)]


def quantised(data: Array, low: Array, high: Array) -> list[Array]:
    """The range of all elements, with zero in it, as that of a byte: as ONNX does it, in single
    precision. Bytes, scale and zero point.
    """
    least, most = np.float32(low), np.float32(high)
    scale = np.float32(1.0 if most == least else most - least) / np.float32(255)
    point = np.rint(np.clip(np.float32(0) - least / scale, 0, 255))
    bytes_of = np.clip(np.rint(data / scale) + point, 0, 255).astype(np.uint8)
    return [bytes_of, np.asarray(scale.astype(data.dtype)), np.asarray(point.astype(np.uint8))]


def dynamic_quantise(call: Call) -> list[Array]:
    data = call[0]
    return quantised(data, np.min(data, initial=0), np.max(data, initial=0))


def _column(values: Array | None) -> Array | None:
    """A number for each row, one below the other."""
    if values is None or values.ndim != 1 or values.size == 1:
        return values
    return values[:, None]


def _channels(values: Array | None, rank: int, dim: int) -> Array | None:
    """A number for each channel, which is dimension `dim`."""
    if values is None or values.size == 1:
        return values
    return values.reshape([-1 if d == dim else 1 for d in range(rank)])


def _without(data: Array, point: Array | None) -> Array:
    """The distance of whole numbers from their zero point."""
    wide = data.astype(np.int32)
    return wide if point is None else wide - point.astype(np.int32)


def product(operands: Operands, left: int, right: int, points: tuple[int, int]) -> Array:
    """The product of whole numbers: places of both operands and of their zero points."""
    one, other = (_operand(operands, i) for i in points)
    return np.matmul(
        _without(_operand(operands, left), _column(one)), _without(_operand(operands, right), other)
    )


def _operand(operands: Operands, index: int) -> Any:
    return operands[index] if index < len(operands) else None


def image(call: Call, left: int, right: int, points: tuple[int, int]) -> Array:
    """The convolution of whole numbers: places of both operands and of their zero points."""
    data, weight = call[left], call[right]
    one, other = (_operand(call.operands, i) for i in points)
    data = _without(data, _channels(one, data.ndim, 0))
    weight = _without(weight, _channels(other, weight.ndim, 0))
    return conv(replace(call, operands=(data, weight)))[0]


def rounded_product(operands: Operands, total: Array) -> Array:
    """The result of `QLinearMatMul`, of the product of whole numbers."""
    left, right, end, point = (_operand(operands, i) for i in (1, 4, 6, 7))
    return _rounded(total * (_column(left) * right / end), point, operands[0])


def rounded_image(operands: Operands, total: Array) -> Array:
    """The result of `QLinearConv`, of the convolution of whole numbers."""
    data, weight, end, point, bias = (_operand(operands, i) for i in (1, 4, 6, 7, 8))
    if bias is not None:
        total = total + _channels(bias, total.ndim, 1)
    return _rounded(total * (data * _channels(weight, total.ndim, 1) / end), point, operands[0])


def _rounded(values: Array, point: Array | None, like: Any) -> Array:
    dtype = like.dtype if point is None else point.dtype
    shifted = values if point is None else values + point
    limits = np.iinfo(dtype)
    return np.clip(np.rint(shifted), limits.min, limits.max).astype(dtype)


def rounded_matmul(call: Call) -> list[Array]:
    return [rounded_product(call.operands, product(call.operands, 0, 3, (2, 5)))]


def rounded_conv(call: Call) -> list[Array]:
    return [rounded_image(call.operands, image(call, 0, 3, (2, 5)))]


def integer_matmul(call: Call) -> list[Array]:
    return [product(call.operands, 0, 1, (2, 3))]


def integer_conv(call: Call) -> list[Array]:
    return [image(call, 0, 1, (2, 3))]
