"""Examples of constants and of random numbers.

What is drawn differs between devices, as it should. The examples leave the generator no choice, so
that results can be compared: a range of no width, a probability of zero or one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from ir.graph import AttributeValue
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers

DIMS = ((6,), (4, 3), (2, 5, 8))


def _shape(draw: Draw) -> Iterator[Example]:
    yield example("Shape", [floats(draw, 4, 6, 2)], [(3,)], ["int64"])


def _size(draw: Draw) -> Iterator[Example]:
    yield example("Size", [floats(draw, 4, 6)], [()], ["int64"])


def _range(_: Draw) -> Iterator[Example]:
    for first, limit, step in ((0, 6, 1), (7, -2, -3)):
        numbers = [np.asarray(n) for n in (first, limit, step)]
        yield example("Range", numbers, [(len(range(first, limit, step)),)])


def _constant_of_shape(_: Draw) -> Iterator[Example]:
    yield example("ConstantOfShape", [np.asarray([4, 6])], [(4, 6)], ["float64"], value=1.5)
    yield example("ConstantOfShape", [np.asarray([3])], [(3,)], ["int64"], value=7)
    yield example("ConstantOfShape", [np.asarray([2, 3])], [(2, 3)], ["float64"])


def _constant(_: Draw) -> Iterator[Example]:
    yield example("Constant", [], [(2,)], ["float32"], value_floats=(0.5, -1.0))
    yield example("Constant", [], [()], ["int64"], value_int=3)


def _eye_like(draw: Draw) -> Iterator[Example]:
    for dims, k in (((4, 6), 0), ((6, 3), 1), ((3, 3), -1)):
        yield example("EyeLike", [floats(draw, *dims)], [dims], k=k)


def _window(kind: str) -> Maker:
    def make(_: Draw) -> Iterator[Example]:
        for size in (6, 9):
            for periodic in (0, 1):
                count = np.asarray(size)
                yield example(kind, [count], [(size,)], ["float64"], periodic=periodic)

    return make


def _mel_weights(_: Draw) -> Iterator[Example]:
    numbers = [np.asarray(n) for n in (8, 16, 8192)] + [np.asarray(f) for f in (0.0, 4096.0)]
    yield example("MelWeightMatrix", numbers, [(9, 8)], ["float64"])


def _drawn(kind: str, **attributes: AttributeValue) -> Maker:
    """From nothing, or like an operand."""

    def make(draw: Draw) -> Iterator[Example]:
        for dims in DIMS:
            operands = [floats(draw, *dims)] if kind.endswith("Like") else []
            yield example(kind, operands, [dims], ["float64"], (), None, **attributes)

    return make


def _bernoulli(draw: Draw) -> Iterator[Example]:
    for dims in DIMS:
        yield example("Bernoulli", [whole_numbers(draw, *dims, below=2).astype(float)], [dims])
    certain = whole_numbers(draw, 4, 6, below=2).astype(float)
    yield example("Bernoulli", [certain], [(4, 6)], ["int64"])


def _multinomial(draw: Draw) -> Iterator[Example]:
    for rows, classes, samples in ((4, 5, 3), (6, 8, 1)):
        chosen = whole_numbers(draw, rows, 1, below=classes)
        logits = np.where(np.arange(classes) == chosen, 0.0, -np.inf)
        yield example("Multinomial", [logits], [(rows, samples)], ["int64"], sample_size=samples)


CONSTANTS: Mapping[str, Maker] = MappingProxyType(
    {
        "Shape": _shape,
        "Size": _size,
        "Range": _range,
        "ConstantOfShape": _constant_of_shape,
        "Constant": _constant,
        "EyeLike": _eye_like,
        **{kind: _window(kind) for kind in ("HannWindow", "HammingWindow", "BlackmanWindow")},
        "MelWeightMatrix": _mel_weights,
        **{
            kind: _drawn(kind, mean=0.75, scale=0.0)
            for kind in ("RandomNormal", "RandomNormalLike")
        },
        **{
            kind: _drawn(kind, low=0.5, high=0.5) for kind in ("RandomUniform", "RandomUniformLike")
        },
        "Bernoulli": _bernoulli,
        "Multinomial": _multinomial,
    }
)
