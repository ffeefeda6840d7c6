"""Examples of quantised operators; sums of whole numbers are exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from executors.placement import Array
from ir.graph import AttributeValue
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers

Dims = tuple[int, ...]


def _bytes(draw: Draw, *dims: int, signed: bool = False) -> Array:
    least, below, dtype = (-128, 128, np.int8) if signed else (0, 256, np.uint8)
    return whole_numbers(draw, *dims, below=below, least=least).astype(dtype)


def _scales(draw: Draw, *dims: int) -> Array:
    return floats(draw, *dims, low=0.01, high=0.1)


_LAYOUTS: tuple[tuple[Dims, Dims, dict[str, AttributeValue]], ...] = (
    ((8, 8, 8), (), {}),
    ((3, 5), (1,), {}),
    ((3, 4, 5), (4,), {"axis": 1}),
    ((6, 4), (6,), {"axis": 0}),
    ((6, 8), (6, 4), {"axis": 1, "block_size": 2}),
    ((5, 3), (3, 3), {"axis": 0, "block_size": 2}),
    ((8, 3, 4), (2, 3, 4), {"axis": 0, "block_size": 4}),
)
"""Elements, scales, and what the scales belong to."""


def _quantise(draw: Draw) -> Iterator[Example]:
    for dims, scales, attributes in _LAYOUTS:
        for signed in (False, True):
            data = floats(draw, *dims, low=-12.0, high=12.0)
            operands = [data, _scales(draw, *scales), _bytes(draw, *scales, signed=signed)]
            dtype = "int8" if signed else "uint8"
            yield example("QuantizeLinear", operands, [dims], [dtype]).having(attributes)
    plain = [floats(draw, 4, 4), _scales(draw)]
    for dtype in ("uint8", "int16"):
        yield example("QuantizeLinear", plain, [(4, 4)], [dtype])
    yield example("QuantizeLinear", [*plain, _bytes(draw, 1, signed=True)], [(4, 4)], ["int8"])


def _dequantise(draw: Draw) -> Iterator[Example]:
    for dims, scales, attributes in _LAYOUTS:
        for signed in (False, True):
            data = _bytes(draw, *dims, signed=signed)
            points = [_bytes(draw, *scales, signed=True)] if signed else []
            operands = [data, _scales(draw, *scales), *points]
            yield example("DequantizeLinear", operands, [dims], ["float64"]).having(attributes)
    of_rank_one = [_bytes(draw, 4, 4, signed=True), _scales(draw), _bytes(draw, 1, signed=True)]
    yield example("DequantizeLinear", of_rank_one, [(4, 4)], ["float64"])


def _dynamic(draw: Draw) -> Iterator[Example]:
    for dims, low, high in (((8, 8), -2, 2), ((3, 5), 1, 3), ((5,), -3, -1), ((2, 3, 4), 0, 0)):
        data = floats(draw, *dims, low=low, high=high).astype(np.float32)
        yield example(
            "DynamicQuantizeLinear", [data], [dims, (), ()], ["uint8", "float32", "uint8"]
        )


_PRODUCTS: tuple[tuple[Dims, Dims, Dims], ...] = (
    ((8, 8), (8, 8), (8, 8)),
    ((3, 5), (5, 4), (3, 4)),
    ((2, 3, 4), (4, 6), (2, 3, 6)),
    ((2, 1, 3, 4), (3, 4, 2), (2, 3, 3, 2)),
)


def _integer_matmul(draw: Draw) -> Iterator[Example]:
    """Zero points of matrices, rows and columns, or none."""
    for left, right, dims in _PRODUCTS:
        a, b = _bytes(draw, *left), _bytes(draw, *right, signed=True)
        rows = (left[-2],) if len(left) == 2 else (*left[:-1], 1)
        columns = (right[-1],) if len(right) == 2 else (*right[:-2], 1, right[-1])
        one = [_bytes(draw), _bytes(draw, signed=True)]
        each = [_bytes(draw, *rows), _bytes(draw, *columns, signed=True)]
        for points in ([], one, each, [None, one[1]], one[:1]):
            yield example("MatMulInteger", [a, b, *points], [dims], ["int32"])


def _rounded_matmul(draw: Draw) -> Iterator[Example]:
    for left, right, dims in _PRODUCTS:
        for each in (False, True):
            rows = ((left[-2],) if len(left) == 2 else (*left[:-1], 1)) if each else ()
            columns = (right[-1],) if len(right) == 2 else (*right[:-2], 1, right[-1])
            columns = columns if each else ()
            operands = [
                _bytes(draw, *left), _scales(draw, *rows), _bytes(draw, *rows),
                _bytes(draw, *right, signed=True), _scales(draw, *columns),
                _bytes(draw, *columns, signed=True), _scales(draw) * 20, _bytes(draw),
            ]  # fmt: skip
            yield example("QLinearMatMul", operands, [dims], ["uint8"])


_CONVOLUTIONS: tuple[tuple[Dims, Dims, Dims, dict[str, AttributeValue]], ...] = (
    ((8, 8, 3, 2), (8, 8, 2, 2), (8, 8, 2, 1), {}),
    ((2, 3, 5, 4), (4, 3, 2, 3), (2, 4, 3, 2), {"strides": (2, 1), "pads": (1, 0, 0, 0)}),
    ((2, 4, 5), (6, 2, 2), (2, 6, 4), {"group": 2}),
    ((2, 32, 2), (32, 8, 2), (2, 32, 1), {"group": 4}),
    ((2, 2, 3, 2, 3), (2, 2, 2, 1, 2), (2, 2, 2, 2, 2), {}),
)


def _integer_conv(draw: Draw) -> Iterator[Example]:
    for data, weight, dims, attributes in _CONVOLUTIONS:
        operands = [_bytes(draw, *data), _bytes(draw, *weight, signed=True)]
        one = [_bytes(draw), _bytes(draw, signed=True)]
        each = [_bytes(draw), _bytes(draw, weight[0], signed=True)]
        for points in ([], one, each):
            yield example("ConvInteger", [*operands, *points], [dims], ["int32"]).having(attributes)


def _rounded_conv(draw: Draw) -> Iterator[Example]:
    """With and without a bias; scales of all weights or of each channel."""
    for number, (data, weight, dims, attributes) in enumerate(_CONVOLUTIONS):
        for each in (False, True) if len(data) == 4 else (False,):
            own = (weight[0],) if each else ()
            bias = whole_numbers(draw, weight[0], below=999, least=-999).astype(np.int32)
            operands = [
                _bytes(draw, *data), _scales(draw), _bytes(draw),
                _bytes(draw, *weight, signed=True), _scales(draw, *own),
                _bytes(draw, *own, signed=True), _scales(draw) * 20, _bytes(draw),
            ]  # fmt: skip
            more = [bias] if number % 2 == 0 else []
            yield example("QLinearConv", [*operands, *more], [dims], ["uint8"]).having(attributes)


def _packed_matmul(draw: Draw) -> Iterator[Example]:
    """Weights of 2, 4 and 8 bits, with and without zero points, a short last block."""
    cases: tuple[tuple[Dims, int, int, int, bool, bool], ...] = (
        ((8, 32), 8, 4, 4, False, True), ((8, 32), 8, 4, 4, False, False),
        ((2, 3, 12), 5, 8, 4, True, False), ((3, 14), 4, 4, 4, False, True),
        ((4, 16), 6, 4, 8, True, True), ((4, 16), 6, 2, 8, True, False),
    )  # fmt: skip
    for dims, rows, bits, block, pointed, flat in cases:
        blocks = -(-dims[-1] // block)
        bytes_of = _bytes(draw, rows, blocks, block * bits // 8)
        scales = _scales(draw, *((rows * blocks,) if flat else (rows, blocks)))
        count = -(-blocks * bits // 8)
        points = [_bytes(draw, *((rows * count,) if flat else (rows, count)))] if pointed else []
        yield example(
            "MatMulNBits",
            [floats(draw, *dims), bytes_of, scales, *points],
            [(*dims[:-1], rows)],
            bits=bits,
            block_size=block,
        )


QUANTISED: Mapping[str, Maker] = MappingProxyType(
    {
        "QuantizeLinear": _quantise,
        "DequantizeLinear": _dequantise,
        "DynamicQuantizeLinear": _dynamic,
        "MatMulInteger": _integer_matmul,
        "QLinearMatMul": _rounded_matmul,
        "ConvInteger": _integer_conv,
        "QLinearConv": _rounded_conv,
        "MatMulNBits": _packed_matmul,
    }
)
