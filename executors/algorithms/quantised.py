"""Quantised operators that round what several devices know together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from executors.algorithms.convolution import with_groups
from executors.placement import Array, Spread
from executors.spmd import Algorithm, OperatorRun, Shards, alone
from ir.graph import Op


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
    return [_quantised(x, a, b)[: len(task.results)] for x, a, b in found]


def _quantised(data: Array, low: Array, high: Array) -> list[Array]:
    """As ONNX does it, in single precision."""
    least, most = np.float32(low), np.float32(high)
    scale = np.float32(1.0 if most == least else most - least) / np.float32(255)
    point = np.rint(np.clip(np.float32(0) - least / scale, 0, 255))
    bytes_of = np.clip(np.rint(data / scale) + point, 0, 255).astype(np.uint8)
    return [bytes_of, np.asarray(scale.astype(data.dtype)), np.asarray(point.astype(np.uint8))]


def _rounded_matmul(task: OperatorRun) -> Shards:
    """Products of whole numbers are summed over the devices, then rounded."""
    left, right = task.operand(0), task.operand(3)
    summed = tuple(sorted({*_split(left, -1), *_split(right, -2 if len(right.dims) > 1 else -1)}))
    if not summed:
        return task.local()
    order = (0, 3, 2, 5)
    sums = [_part(task, rank, replace(task.op, kind="MatMulInteger"), order) for rank in task.ranks]
    totals = task.all_reduce(sums, summed, np.add)
    return alone([_rounded_product(task, rank, total) for rank, total in enumerate(totals)])


def _split(operand: Spread, dim: int) -> tuple[int, ...]:
    return operand.layout.dims[dim]


def _rounded_conv(task: OperatorRun) -> Shards:
    weight = task.operand(3)
    summed = tuple(sorted(weight.layout.dims[1]))
    if not summed:
        return task.local(lambda rank: with_groups(task, rank, task.op))
    plain = replace(task.op, kind="ConvInteger")
    sums = [_part(task, r, with_groups(task, r, plain), (0, 3, 2, 5)) for r in task.ranks]
    totals = task.all_reduce(sums, summed, np.add)
    return alone([_rounded_image(task, rank, total) for rank, total in enumerate(totals)])


def _part(task: OperatorRun, rank: int, op: Op, order: Sequence[int]) -> Array:
    """The term of one device, of the operands that `order` says."""
    names = tuple(task.op.inputs[i] for i in order)
    return task.on(rank, replace(op, inputs=names), [task.parts(rank)[i] for i in order])[0]


def _numbers(task: OperatorRun, rank: int, index: int) -> Array | None:
    """A scale or zero point; what one device has of it."""
    return task.operand(index).shards[rank] if task.has(index) else None


def _rounded_product(task: OperatorRun, rank: int, total: Array) -> Array:
    left, right, end = (_numbers(task, rank, i) for i in (1, 4, 6))
    assert left is not None
    assert right is not None
    if left.ndim == 1 and left.size > 1:
        left = left[:, None]
    return _rounded(total * (left * right / end), _numbers(task, rank, 7), task.operand(0))


def _rounded_image(task: OperatorRun, rank: int, total: Array) -> Array:
    data, weight, end = (_numbers(task, rank, i) for i in (1, 4, 6))
    bias = _numbers(task, rank, 8)
    assert weight is not None
    per_channel = [1, -1, *[1] * (total.ndim - 2)]
    if bias is not None:
        total = total + bias.reshape(per_channel)
    if weight.size > 1:
        weight = weight.reshape(per_channel)
    return _rounded(total * (data * weight / end), _numbers(task, rank, 7), task.operand(0))


def _rounded(values: Array, point: Array | None, like: Spread) -> Array:
    dtype = point.dtype if point is not None else like.shards[0].dtype
    shifted = values if point is None else values + point
    limits = np.iinfo(dtype)
    return np.clip(np.rint(shifted), limits.min, limits.max).astype(dtype)


QUANTISED: Mapping[str, Algorithm] = MappingProxyType(
    {
        "DynamicQuantizeLinear": _dynamic,
        "QLinearMatMul": _rounded_matmul,
        "QLinearConv": _rounded_conv,
    }
)
