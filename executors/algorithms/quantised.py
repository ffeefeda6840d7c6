"""Quantised operators that round what several devices know together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from executors.algorithms.convolution import with_groups
from executors.placement import Array, Spread
from executors.semantics.call import Call
from executors.semantics.quantised import (
    image,
    product,
    quantised,
    rounded_image,
    rounded_product,
)
from executors.spmd import Algorithm, OperatorRun, Shards, alone


def _dynamic(task: OperatorRun) -> Shards:
    """The range of all elements, with zero in it, becomes the range of a byte."""
    data = task.operand(0)
    axes = task.axes_of(0, range(len(data.dims)))
    if not axes:
        return task.local()
    low = [np.min(x, initial=0) for x in data.shards]
    high = [np.max(x, initial=0) for x in data.shards]
    low = task.all_reduce(low, axes, np.minimum)
    high = task.all_reduce(high, axes, np.maximum)
    found = zip(data.shards, low, high, strict=True)
    return [quantised(x, a, b)[: len(task.results)] for x, a, b in found]


def _rounded_matmul(task: OperatorRun) -> Shards:
    """Products of whole numbers are summed over the devices, then rounded."""
    left, right = task.operand(0), task.operand(3)
    summed = tuple(sorted({*_split(left, -1), *_split(right, -2 if len(right.dims) > 1 else -1)}))
    if not summed:
        return task.local()
    sums = [product(task.parts(rank), 0, 3, (2, 5)) for rank in task.ranks]
    totals = task.all_reduce(sums, summed, np.add)
    return alone([rounded_product(task.parts(rank), total) for rank, total in enumerate(totals)])


def _split(operand: Spread, dim: int) -> tuple[int, ...]:
    return operand.layout.dims[dim]


def _rounded_conv(task: OperatorRun) -> Shards:
    weight = task.operand(3)
    summed = tuple(sorted(weight.layout.dims[1]))
    if not summed:
        return task.local(lambda rank: with_groups(task, rank, task.op))
    sums = [_image(task, rank) for rank in task.ranks]
    totals = task.all_reduce(sums, summed, np.add)
    return alone([rounded_image(task.parts(rank), total) for rank, total in enumerate(totals)])


def _image(task: OperatorRun, rank: int) -> Array:
    """The convolution of whole numbers of one device."""
    op, dims = with_groups(task, rank, task.op), (task.local_dims(0, rank),)
    return image(Call(op, tuple(task.parts(rank)), dims), 0, 3, (2, 5))


QUANTISED: Mapping[str, Algorithm] = MappingProxyType(
    {
        "DynamicQuantizeLinear": _dynamic,
        "QLinearMatMul": _rounded_matmul,
        "QLinearConv": _rounded_conv,
    }
)
