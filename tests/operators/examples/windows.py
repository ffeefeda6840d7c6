"""Numbers of sliding windows."""

from __future__ import annotations

import math

from ir.graph import AttributeValue

Dims = tuple[int, ...]
Attributes = dict[str, AttributeValue]


def ints_of(attributes: Attributes, key: str, default: Dims) -> Dims:
    """A list of whole numbers among attributes."""
    value = attributes.get(key, default)
    assert isinstance(value, tuple)
    return tuple(int(v) for v in value)


def slid(image: Dims, kernel: Dims, attributes: Attributes, *, ceil: bool = False) -> Dims:
    """Number of windows over each dimension of an image."""
    rank = len(image)
    strides = ints_of(attributes, "strides", (1,) * rank)
    dilations = ints_of(attributes, "dilations", (1,) * rank)
    pads = ints_of(attributes, "pads", (0,) * (2 * rank))
    out = []
    for i in range(rank):
        room = image[i] + pads[i] + pads[rank + i] - (kernel[i] - 1) * dilations[i] - 1
        count = (math.ceil if ceil else math.floor)(room / strides[i]) + 1
        out.append(count - int(ceil and (count - 1) * strides[i] >= image[i] + pads[i]))
    return tuple(out)
