"""Softmax and reductions: what is computed along a split dimension is exchanged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from executors.device import (
    AllReduce,
    Backward,
    Device,
    DeviceAlgorithm,
    Running,
    view_of,
)
from ir.ops.reduction import MEANS, REDUCTIONS, SOFTMAXES, reduced_axes, statistics_axes
from ir.semantics.arrays import np
from ir.semantics.statistics import REDUCED, Combine, largest


def _softmax(device: Device) -> Running:
    dims = statistics_axes(view_of(device))
    axes = device.axes_of(0, dims)
    if not axes:
        return device.run()
    data = device.operands[0]
    top = yield AllReduce(largest(data, dims), axes, Combine.MAX)
    shifted = data - top
    own = np.sum(np.exp(shifted), axis=dims, keepdims=True)
    total = yield AllReduce(own, axes, backward=Backward.SUM)
    logarithm = SOFTMAXES[device.op.kind]
    return [shifted - np.log(total) if logarithm else np.exp(shifted) / total]


def _reduction(device: Device) -> Running:
    dims = reduced_axes(view_of(device))
    axes = device.axes_of(0, dims)
    if not axes:
        return device.run()
    of_part, combine, finish = REDUCED[device.op.kind]
    keep = len(device.results[0].dims) == len(device.dims(0))
    own = of_part(device.operands[0], axis=dims, keepdims=keep)
    total = yield AllReduce(own, axes, combine, Backward.OWN)
    return [finish(total)]


def _mean(device: Device) -> Running:
    """A term of the mean: the sum over the number of all elements."""
    yield from ()
    rank = len(device.dims(0))
    dims = tuple(range(2, rank))
    if device.op.kind in REDUCTIONS:
        dims = reduced_axes(view_of(device))
    keep = len(device.results[0].dims) == rank
    count = math.prod(device.dims(0)[d] for d in dims)
    total: Any = np.sum(device.operands[0], axis=dims, keepdims=keep)
    return [total / count]


STATISTICS: Mapping[str, DeviceAlgorithm] = MappingProxyType(
    {
        **dict.fromkeys(SOFTMAXES, _softmax),
        **dict.fromkeys(REDUCED, _reduction),
        **dict.fromkeys(MEANS, _mean),
    }
)
