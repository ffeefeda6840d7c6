"""Examples of element-wise operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from executors.placement import Array
from ir.graph import AttributeValue
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers

SHAPES = ((6,), (3, 4), (2, 5, 8), (1, 6, 4, 3), (2, 2, 3, 1, 4))
"""Every rank, odd extents, dimensions of one."""
PAIRS = (
    ((4, 6), (4, 6)), ((2, 3, 8), (8,)), ((2, 1, 6), (4, 1)), ((7, 4), ()), ((5,), (2, 3, 5)),
    ((1, 4, 1, 6, 2), (4, 3, 1, 2)), ((2, 4, 6), (2, 4, 6)), ((2, 4), (4,)),
)  # fmt: skip
"""Shapes that broadcast to each other."""


def flags(draw: Draw, *dims: int) -> Array:
    """Random truth values."""
    return whole_numbers(draw, *dims, below=2).astype(np.bool_)


def _unary(
    kind: str,
    low: float = -2.0,
    high: float = 2.0,
    *choices: Mapping[str, AttributeValue],
    dtype: str = "",
) -> Maker:
    """Ranks 1 to 5, then each choice of attributes."""

    def make(draw: Draw) -> Iterator[Example]:
        types = [dtype] if dtype else []
        for dims in (*SHAPES, ()):
            yield example(kind, [floats(draw, *dims, low=low, high=high)], [dims], types)
        for attributes in choices:
            array = floats(draw, 3, 8, low=low, high=high)
            yield example(kind, [array], [(3, 8)], types, (), None, **attributes)

    return make


def _binary(
    kind: str, low: float = -2.0, high: float = 2.0, dtype: str = "", **attributes: AttributeValue
) -> Maker:
    def make(draw: Draw) -> Iterator[Example]:
        for one, other in PAIRS:
            arrays = [floats(draw, *dims, low=low, high=high) for dims in (one, other)]
            result = np.broadcast_shapes(one, other)
            yield example(kind, arrays, [result], [dtype] if dtype else [], (), None, **attributes)

    return make


def _many(kind: str) -> Maker:
    def make(draw: Draw) -> Iterator[Example]:
        yield example(kind, [floats(draw, 3, 4)], [(3, 4)])
        yield from _binary(kind)(draw)
        arrays = [floats(draw, *dims) for dims in ((2, 6), (6,), (4, 1, 1), (1, 2, 1))]
        yield example(kind, arrays, [(4, 2, 6)])

    return make


def _integers(kind: str, dtype: str = "", *choices: Mapping[str, AttributeValue]) -> Maker:
    """Two operands of whole numbers, the second one positive."""

    def make(draw: Draw) -> Iterator[Example]:
        own = np.uint8 if choices else np.int64
        for attributes in choices or ({},):
            for one, other in PAIRS:
                arrays = [
                    whole_numbers(draw, *dims, least=1, below=6).astype(own)
                    for dims in (one, other)
                ]
                result = np.broadcast_shapes(one, other)
                yield example(
                    kind, arrays, [result], [dtype] if dtype else [], (), None, **attributes
                )

    return make


def _truths(kind: str) -> Maker:
    def make(draw: Draw) -> Iterator[Example]:
        for one, other in PAIRS:
            arrays = [flags(draw, *one), flags(draw, *other)]
            yield example(kind, arrays, [np.broadcast_shapes(one, other)])

    return make


def _not(draw: Draw) -> Iterator[Example]:
    for dims in SHAPES:
        yield example("Not", [flags(draw, *dims)], [dims])


def _bitwise_not(draw: Draw) -> Iterator[Example]:
    for dims in SHAPES:
        yield example("BitwiseNot", [whole_numbers(draw, *dims, below=99)], [dims])


def _unusual(kind: str, value: float, *choices: Mapping[str, AttributeValue]) -> Maker:
    """Arrays with a number that is none, or infinite."""

    def make(draw: Draw) -> Iterator[Example]:
        for attributes in ({}, *choices):
            for dims in SHAPES:
                array = floats(draw, *dims)
                array = np.where(array > 1.0, value, np.where(array < -1.0, -value, array))
                yield example(kind, [array], [dims], ["bool"], (), None, **attributes)

    return make


def _mod(draw: Draw) -> Iterator[Example]:
    yield from _binary("Mod", 0.3, 2.0, fmod=1)(draw)
    signed = whole_numbers(draw, 4, 6, least=-9, below=9)
    yield example("Mod", [signed, whole_numbers(draw, 6, least=1, below=5)], [(4, 6)])
    yield example("Mod", [signed, whole_numbers(draw, 6, least=1, below=5)], [(4, 6)], fmod=1)


def _p_relu(draw: Draw) -> Iterator[Example]:
    for data, slope in (((2, 4, 6), (4, 1)), ((3, 8), (8,)), ((2, 4), (1,)), ((3, 4), (3, 4))):
        yield example("PRelu", [floats(draw, *data), floats(draw, *slope)], [data])


def _where(draw: Draw) -> Iterator[Example]:
    for condition, one, other in (
        ((4, 6), (4, 6), (4, 6)),
        ((2, 3, 1), (8,), (1, 1)),
        ((5,), (2, 1, 5), ()),
        ((1, 4, 1, 6), (2, 4, 3, 6), (1,)),
    ):
        arrays = [flags(draw, *condition), floats(draw, *one), floats(draw, *other)]
        dims = np.broadcast_shapes(condition, one, other)
        yield example("Where", arrays, [dims], ["float64"])


def _cast(draw: Draw) -> Iterator[Example]:
    for dims in SHAPES:
        yield example("Cast", [floats(draw, *dims).astype(np.float32)], [dims], ["float64"])
    yield example("Cast", [floats(draw, 3, 4, low=-9, high=9)], [(3, 4)], ["int64"])
    yield example("Cast", [whole_numbers(draw, 3, 4, below=3)], [(3, 4)], ["bool"])
    yield example("Cast", [flags(draw, 3, 4)], [(3, 4)], ["float64"])


def _bit_cast(draw: Draw) -> Iterator[Example]:
    for dims in SHAPES:
        yield example("BitCast", [floats(draw, *dims)], [dims], ["int64"])
    yield example("BitCast", [whole_numbers(draw, 4, 6, below=99)], [(4, 6)], ["uint64"])


def _dropout(draw: Draw) -> Iterator[Example]:
    for dims in SHAPES:
        yield example("Dropout", [floats(draw, *dims)], [dims])
    yield example("Dropout", [floats(draw, 4, 6)], [(4, 6), (4, 6)], ["float64", "bool"])
    yield example("Dropout", [floats(draw, 4, 6), floats(draw)], [(4, 6)])


def _clip(draw: Draw) -> Iterator[Example]:
    """Bounds as attributes, as operands, one of them, none."""
    for dims in SHAPES:
        yield example("Clip", [floats(draw, *dims)], [dims], min=-0.5, max=0.75)
    data, low, high = floats(draw, 4, 6), np.asarray(-0.3), np.asarray(1.1)
    yield example("Clip", [data], [(4, 6)], max=0.25)
    yield example("Clip", [data], [(4, 6)], min=0.1)
    yield example("Clip", [data], [(4, 6)])
    yield example("Clip", [data, low, high], [(4, 6)])
    yield example("Clip", [data, None, high], [(4, 6)], min=-0.5)
    yield example("Clip", [whole_numbers(draw, 4, 6, least=-9, below=9)], [(4, 6)], min=-2, max=3)


def _biased(kind: str) -> Maker:
    """Without a bias for the kind that may lack it."""

    def make(draw: Draw) -> Iterator[Example]:
        if kind == "FastGelu":
            yield from _unary(kind)(draw)
        for dims in ((4, 6), (2, 3, 8), (3, 1, 2, 5)):
            yield example(kind, [floats(draw, *dims), floats(draw, dims[-1])], [dims])

    return make


def _bias_add(draw: Draw) -> Iterator[Example]:
    for dims, axis in (((4, 6), 1), ((2, 4, 3, 6), 1), ((2, 3, 8), 2), ((5, 4), 0)):
        data = [floats(draw, *dims), floats(draw, dims[axis])]
        yield example("BiasAdd", data, [dims], axis=axis)


ELEMENTWISE: Mapping[str, Maker] = MappingProxyType(
    {
        **{
            kind: _unary(kind)
            for kind in (
                "Relu", "Sigmoid", "Tanh", "Exp", "HardSwish", "Softplus", "Softsign", "Erf", "Abs",
                "Cos", "Sin", "Mish", "Sinh", "Cosh", "Atan", "Asinh", "Neg", "Identity", "Sign",
                "Floor", "Ceil", "Round",
            )
        },
        **{
            kind: _unary(kind, -2.0, 2.0, {"alpha": 0.25}, {"alpha": 0.3})
            for kind in ("Elu", "LeakyRelu", "Celu", "ThresholdedRelu", "Swish", "QuickGelu")
        },
        **{kind: _unary(kind, 0.2, 2.0) for kind in ("Sqrt", "Reciprocal", "Log")},
        **{kind: _unary(kind, -0.9, 0.9) for kind in ("Asin", "Acos", "Atanh", "Tan")},
        "Acosh": _unary("Acosh", 1.2, 3.0),
        "Gelu": _unary("Gelu", -2.0, 2.0, {"approximate": "tanh"}, {"approximate": "none"}),
        "HardSigmoid": _unary("HardSigmoid", -4.0, 4.0, {"alpha": 0.5, "beta": 0.3}),
        "Selu": _unary("Selu", -2.0, 2.0, {"alpha": 0.7, "gamma": 1.3}),
        "Shrink": _unary("Shrink", -2.0, 2.0, {"lambd": 0.3, "bias": 0.7}),
        "BiasGelu": _biased("BiasGelu"),
        "FastGelu": _biased("FastGelu"),
        "Clip": _clip,
        "Cast": _cast,
        "BitCast": _bit_cast,
        "Dropout": _dropout,
        **{kind: _binary(kind) for kind in ("Add", "Sub", "Mul")},
        "Div": _binary("Div", 0.3, 2.0),
        "Pow": _binary("Pow", 0.3, 2.0),
        "Mod": _mod,
        "PRelu": _p_relu,
        **{kind: _many(kind) for kind in ("Sum", "Mean", "Max", "Min")},
        "BiasAdd": _bias_add,
        "Where": _where,
        **{kind: _truths(kind) for kind in ("And", "Or", "Xor")},
        **{
            kind: _integers(kind, "bool")
            for kind in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
        },
        **{kind: _integers(kind) for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
        "BitShift": _integers("BitShift", "", {"direction": "LEFT"}, {"direction": "RIGHT"}),
        "Not": _not,
        "BitwiseNot": _bitwise_not,
        "IsNaN": _unusual("IsNaN", float("nan")),
        "IsInf": _unusual("IsInf", float("inf"), {"detect_negative": 0}, {"detect_positive": 0}),
    }
)  # fmt: skip
