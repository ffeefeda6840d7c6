"""Examples of convolutions and pooling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from ir.graph import AttributeValue
from tests.operators.example import Draw, Example, Maker, example, floats
from tests.operators.examples.sampling import SAMPLING
from tests.operators.examples.windows import Attributes, Dims, ints_of, slid


def _conv(draw: Draw) -> Iterator[Example]:
    """One to three dimensions, groups, strides, dilations, pads of two sides."""
    cases: list[tuple[Dims, Dims, Attributes]] = [
        ((4, 3, 5), (4, 3, 3), {"pads": (1, 0)}),
        ((8, 8, 4, 4), (8, 8, 2, 2), {"kernel_shape": (2, 2)}),
        ((2, 8, 5, 4), (8, 4, 3, 2), {"group": 2, "strides": (2, 1), "pads": (1, 0, 2, 1)}),
        ((8, 8, 3), (16, 1, 2), {"group": 8}),
        ((3, 4, 6, 5), (6, 4, 2, 2), {"dilations": (2, 3)}),
        ((2, 6, 3, 2, 3), (4, 3, 2, 1, 2), {"group": 2, "strides": (1, 1, 2)}),
        ((4, 32, 3), (32, 8, 2), {"group": 4}),
        ((2, 4, 4, 4), (6, 4, 3, 3), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}),
        ((2, 4, 4, 4), (4, 1, 3, 3), {"kernel_shape": (3, 3), "pads": (1,) * 4, "group": 4}),
    ]
    for data, weight, attributes in cases:
        dims = (data[0], weight[0], *slid(data[2:], weight[2:], attributes))
        yield example("Conv", [floats(draw, *data), floats(draw, *weight)], [dims]).having(
            attributes
        )


def _conv_transpose(draw: Draw) -> Iterator[Example]:
    """Also with a result larger than the windows reach, and with groups of several channels."""
    cases: list[tuple[Dims, Dims, Attributes, Dims]] = [
        ((8, 8, 4), (8, 8, 3), {}, (0,)),
        ((2, 8, 3, 2), (8, 4, 2, 3), {"group": 2, "strides": (2, 1), "pads": (1, 0, 0, 1)}, (0, 0)),
        ((3, 4, 3, 3), (4, 5, 2, 2), {"strides": (3, 2), "dilations": (2, 1)}, (2, 1)),
        ((2, 8, 3), (8, 1, 2), {"group": 8, "strides": (2,)}, (1,)),
        ((1, 2, 2, 3, 2), (2, 4, 2, 2, 1), {"strides": (2, 1, 1)}, (0, 0, 0)),
        ((4, 32, 2), (32, 8, 2), {"group": 4}, (0,)),
        ((2, 4, 4, 4), (4, 6, 2, 2), {"kernel_shape": (2, 2), "strides": (2, 2)}, (0, 0)),
    ]
    for data, weight, attributes, more in cases:
        rank = len(more)
        strides = ints_of(attributes, "strides", (1,) * rank)
        dilations = ints_of(attributes, "dilations", (1,) * rank)
        pads = ints_of(attributes, "pads", (0,) * (2 * rank))
        image = tuple(
            (data[2 + i] - 1) * strides[i]
            + (weight[2 + i] - 1) * dilations[i]
            + 1
            - pads[i]
            - pads[rank + i]
            + more[i]
            for i in range(rank)
        )
        groups = attributes.get("group", 1)
        assert isinstance(groups, int)
        dims = (data[0], weight[1] * groups, *image)
        operands = [floats(draw, *data), floats(draw, *weight)]
        yield example("ConvTranspose", operands, [dims]).having(attributes)


POOLS: list[tuple[Dims, Attributes, bool]] = [
    ((4, 4, 5), {"kernel_shape": (2,), "strides": (2,)}, False),
    ((4, 4, 5), {"kernel_shape": (2,), "strides": (2,)}, True),
    ((3, 4, 4, 3), {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1)}, False),
    ((2, 3, 7, 6), {"kernel_shape": (2, 2), "dilations": (2, 1), "strides": (1, 2)}, False),
    ((2, 2, 5, 6), {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 0, 0, 1)}, True),
    ((2, 1, 7, 7), {"kernel_shape": (2, 3), "strides": (4, 4), "pads": (1, 1, 1, 1)}, True),
    ((2, 2, 3, 4, 2), {"kernel_shape": (2, 2, 1), "strides": (1, 2, 1)}, False),
]


def _pool(kind: str, **more: AttributeValue) -> Maker:
    def make(draw: Draw) -> Iterator[Example]:
        for data, attributes, ceil in POOLS:
            kernel = ints_of(attributes, "kernel_shape", ())
            dims = (*data[:2], *slid(data[2:], kernel, attributes, ceil=ceil))
            yield example(kind, [floats(draw, *data)], [dims]).having(attributes).having(more)

    return make


def _max_pool(draw: Draw) -> Iterator[Example]:
    """With the places of the largest elements in both orders."""
    yield from _pool("MaxPool")(draw)
    for order in (0, 1):
        for data, attributes, _ in (POOLS[0], POOLS[2], POOLS[3], POOLS[6]):
            kernel = ints_of(attributes, "kernel_shape", ())
            dims = (*data[:2], *slid(data[2:], kernel, attributes))
            yield example(
                "MaxPool",
                [floats(draw, *data)],
                [dims, dims],
                ["float64", "int64"],
                storage_order=order,
            ).having(attributes)


def _average_pool(draw: Draw) -> Iterator[Example]:
    yield from _pool("AveragePool")(draw)
    yield from _pool("AveragePool", count_include_pad=1)(draw)


def _lp_pool(draw: Draw) -> Iterator[Example]:
    yield from itertools.islice(_pool("LpPool")(draw), 0, None, 2)
    yield from itertools.islice(_pool("LpPool", p=3)(draw), 1, None, 2)


def _global(kind: str, *more: Attributes) -> Maker:
    def make(draw: Draw) -> Iterator[Example]:
        for dims in ((8, 8, 8, 8), (2, 3, 5), (3, 5, 4, 6), (2, 1, 2, 3, 4)):
            for attributes in more or ({},):
                result = (*dims[:2], *[1] * (len(dims) - 2))
                yield example(kind, [floats(draw, *dims)], [result]).having(attributes)

    return make


def _max_unpool(draw: Draw) -> Iterator[Example]:
    """Places in the image of the inferred size; the result may be larger."""
    cases: list[tuple[Dims, Attributes, Dims]] = [
        ((2, 3, 2, 2), {"kernel_shape": (2, 2), "strides": (2, 2)}, (0, 0)),
        ((2, 3, 3), {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0)}, (0,)),
        ((2, 2, 2, 3), {"kernel_shape": (2, 2), "strides": (2, 2)}, (1, 2)),
    ]
    for data, attributes, more in cases:
        rank, kernel = len(more), ints_of(attributes, "kernel_shape", ())
        strides, pads = (
            ints_of(attributes, "strides", ()),
            ints_of(attributes, "pads", (0,) * 2 * rank),
        )
        image = tuple(
            (data[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i]
            for i in range(rank)
        )
        chosen = draw.sample(range(math.prod((*data[:2], *image))), math.prod(data))
        places = np.asarray(chosen, dtype=np.int64).reshape(data)
        wanted = (*data[:2], *(i + m for i, m in zip(image, more, strict=True)))
        yield example("MaxUnpool", [floats(draw, *data), places], [wanted]).having(attributes)


def _fold(draw: Draw) -> Iterator[Example]:
    cases: list[tuple[Dims, Dims, Attributes]] = [
        ((8, 8, 5), (2,), {"strides": (2,)}),
        ((3, 4, 5, 4), (2, 3), {"pads": (1, 0, 0, 1), "strides": (1, 2)}),
        ((2, 2, 5, 6), (2, 2), {"dilations": (2, 1)}),
        ((2, 4, 3, 2, 4), (2, 1, 2), {}),
    ]
    for image, kernel, attributes in cases:
        places = math.prod(slid(image[2:], kernel, attributes))
        data = floats(draw, image[0], image[1] * math.prod(kernel), places)
        yield example("Col2Im", [data], [image], kernel_shape=kernel).having(attributes)


IMAGES: Mapping[str, Maker] = MappingProxyType(
    {
        "Conv": _conv,
        "ConvTranspose": _conv_transpose,
        "MaxPool": _max_pool,
        "AveragePool": _average_pool,
        "LpPool": _lp_pool,
        "GlobalAveragePool": _global("GlobalAveragePool"),
        "GlobalMaxPool": _global("GlobalMaxPool"),
        "GlobalLpPool": _global("GlobalLpPool", {}, {"p": 1}, {"p": 3}),
        "MaxUnpool": _max_unpool,
        "Col2Im": _fold,
        **SAMPLING,
    }
)
