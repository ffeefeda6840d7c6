"""Quantised operators that round what several devices know together."""

from __future__ import annotations

from executors.device import (
    AllReduce,
    Device,
    Running,
    with_groups,
)
from executors.semantics.quantised import (
    image,
    product,
    quantised,
    rounded_image,
    rounded_product,
)
from ir.semantics.arrays import np
from ir.semantics.statistics import Combine


def dynamic_quantise(device: Device) -> Running:
    """The range of all elements, with zero in it, becomes the range of a byte."""
    data = device.operands[0]
    axes = device.axes_of(0, range(data.ndim))
    if not axes:
        return device.run()
    low = yield AllReduce(np.min(data, initial=0), axes, Combine.MIN)
    high = yield AllReduce(np.max(data, initial=0), axes, Combine.MAX)
    return quantised(data, low, high)[: len(device.results)]


def rounded_matmul(device: Device) -> Running:
    """Products of whole numbers are summed over the devices, then rounded."""
    left, right = (len(device.dims(i)) for i in (0, 3))
    columns = device.axes_of(0, (left - 1,))
    rows = device.axes_of(3, (right - 2 if right > 1 else 0,))
    summed = tuple(sorted({*columns, *rows}))
    if not summed:
        return device.run()
    total = yield AllReduce(product(device.operands, 0, 3, (2, 5)), summed)
    return [rounded_product(device.operands, total)]


def rounded_conv(device: Device) -> Running:
    own = with_groups(device, device.op)
    summed = device.axes_of(3, (1,))
    if not summed:
        return device.run(own)
    total = yield AllReduce(image(device.call(own), 0, 3, (2, 5)), summed)
    return [rounded_image(device.operands, total)]
