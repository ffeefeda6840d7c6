"""The largest and least elements, whose gradient is shared among equal ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import autograd.numpy as np
from autograd.tracer import getval, isbox

from executors.placement import Array
from executors.spmd import Algorithm, OperatorRun, Shards, alone
from ir.ops import OpView
from ir.ops.reduction import EXTREMES, reduced_axes
from ir.semantics.statistics import largest


def _extreme(task: OperatorRun) -> Shards:
    """Elements that are equally large, wherever they are, have equal shares of the gradient."""
    data = task.operand(0)
    dims = reduced_axes(OpView(task.op, task.graph))
    axes = task.axes_of(0, dims)
    if not axes:
        return task.local()
    sign, dtype = EXTREMES[task.op.kind], getval(data.shards[0]).dtype
    keep = len(task.results[0].dims) == len(data.dims)
    tops = task.all_reduce([largest(sign * getval(x), dims) for x in data.shards], axes, np.maximum)
    chosen = [sign * getval(x) == top for x, top in zip(data.shards, tops, strict=True)]

    def shape(array: Array) -> Array:
        kept = [d for i, d in enumerate(array.shape) if keep or i not in dims]
        return np.reshape(array, kept)

    def use(rank: int, count: Array) -> Array:
        """The largest number, with the gradient of the mean of the elements that are it."""
        found = np.where(chosen[rank], data.shards[rank], 0.0)
        mean = np.sum(found, axis=dims, keepdims=True) / count
        return shape(sign * tops[rank] + mean - getval(mean))

    if not isbox(data.shards[0]):
        return alone([shape(sign * top).astype(dtype) for top in tops])
    counts = [np.sum(c, axis=dims, keepdims=True) for c in chosen]
    return alone(task.sum_late(counts, axes, use))


STATISTICS: Mapping[str, Algorithm] = MappingProxyType(dict.fromkeys(EXTREMES, _extreme))
