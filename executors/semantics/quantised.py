"""Quantised numbers as floating point: what a scale has a gradient of."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.placement import Array
from executors.semantics.arrays import np
from executors.semantics.call import Call, Semantics


def _dequantise(call: Call) -> list[Array]:
    """Scale times the distance from the zero point."""
    data = call[0].astype(np.float64)
    if call.has(2):
        data = data - _stretched(call, call[2].astype(np.float64))
    return [data * _stretched(call, call[1])]


def _stretched(call: Call, values: Array) -> Array:
    """One number for each element: of all, of a slice along the axis, or of a block."""
    dims, axis, block = call[0].shape, call.int("axis"), call.int("block_size")
    if values.size == 1:
        return np.reshape(values, ())
    if not block:
        return np.reshape(values, [-1 if d == axis else 1 for d in range(len(dims))])
    rows = np.arange(dims[axis]) // block
    return values[(*(slice(None),) * axis, rows)]


def _packed_matmul(call: Call) -> list[Array]:
    """A product with weights of a few bits, each block of which has a scale and a zero point."""
    packed, bits, block = call[1], call.int("bits", 4), call.int("block_size", 32)
    rows, blocks = packed.shape[:2]
    weight = _unpacked(packed, bits)[..., :block]
    scale = np.reshape(call[2], (rows, blocks, 1))
    point = np.full((rows, blocks), 1 << (bits - 1))
    if call.has(3):
        point = _unpacked(call[3].reshape(rows, -1), bits)[:, :blocks]
    matrix = np.reshape((weight - point[..., None]) * scale, (rows, blocks * block))
    return [np.matmul(call[0], np.swapaxes(matrix[:, : call[0].shape[-1]], 0, 1))]


def _unpacked(packed: Array, bits: int) -> Array:
    """Numbers of a few bits each, the lowest of a byte first."""
    shifts = np.arange(0, 8, bits)
    found = (packed.astype(np.int64)[..., None] >> shifts) & ((1 << bits) - 1)
    return found.reshape(*packed.shape[:-1], -1)


QUANTISED: Mapping[str, Semantics] = MappingProxyType(
    {"DequantizeLinear": _dequantise, "MatMulNBits": _packed_matmul}
)
