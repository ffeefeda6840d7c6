"""Softmax and reductions: what is computed along a split dimension is exchanged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import autograd.numpy as np
from autograd.tracer import getval, isbox

from executors.placement import Array
from executors.semantics.statistics import REDUCED, largest
from executors.spmd import Algorithm, Backward, OperatorRun, Shards, alone
from ir.ops import OpView
from ir.ops.reduction import EXTREMES, MEANS, SOFTMAXES, reduced_axes, statistics_axes


def _softmax(task: OperatorRun) -> Shards:
    dims = statistics_axes(OpView(task.op, task.graph))
    axes = task.axes_of(0, dims)
    if not axes:
        return task.local()
    parts = task.operand(0).shards
    tops = task.all_reduce([largest(x, dims) for x in parts], axes, np.maximum)
    shifted = [x - m for x, m in zip(parts, tops, strict=True)]
    sums = [np.sum(np.exp(x), axis=dims, keepdims=True) for x in shifted]
    sums = task.all_reduce(sums, axes, np.add, Backward.SUM)
    if task.op.kind == "Softmax":
        return alone([np.exp(x) / s for x, s in zip(shifted, sums, strict=True)])
    return alone([x - np.log(s) for x, s in zip(shifted, sums, strict=True)])


def _reduction(task: OperatorRun) -> Shards:
    data = task.operand(0)
    dims = reduced_axes(OpView(task.op, task.graph))
    axes = task.axes_of(0, dims)
    if not axes:
        return task.local()
    own, combine, finish = REDUCED[task.op.kind]
    keep = len(task.results[0].dims) == len(data.dims)
    parts = [own(x, axis=dims, keepdims=keep) for x in data.shards]
    return alone([finish(x) for x in task.all_reduce(parts, axes, combine, Backward.OWN)])


def _extreme(task: OperatorRun) -> Shards:
    """Elements that are equally large, wherever they are, have equal shares of the gradient."""
    data = task.operand(0)
    dims = reduced_axes(OpView(task.op, task.graph))
    axes = task.axes_of(0, dims)
    if not axes:
        return task.local()
    sign, dtype = (1 if task.op.kind == "ReduceMax" else -1), getval(data.shards[0]).dtype
    keep = len(task.results[0].dims) == len(data.dims)
    tops = task.all_reduce([largest(sign * x, dims) for x in data.shards], axes, np.maximum)
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


def _mean(task: OperatorRun) -> Shards:
    """A device's term is its own mean times its share of the elements."""
    data = task.operand(0)
    if task.op.kind == "ReduceMean":
        dims: tuple[int, ...] = reduced_axes(OpView(task.op, task.graph))
    else:
        dims = tuple(range(2, len(data.dims)))
    count = math.prod(data.dims[d] for d in dims)
    out = []
    for rank, found in enumerate(task.local()):
        own = math.prod(data.shards[rank].shape[d] for d in dims)
        out.append([found[0] * (own / count)] if own else [np.zeros_like(found[0])])
    return out


STATISTICS: Mapping[str, Algorithm] = MappingProxyType(
    {
        **dict.fromkeys(SOFTMAXES, _softmax),
        **dict.fromkeys(REDUCED, _reduction),
        **dict.fromkeys(EXTREMES, _extreme),
        **dict.fromkeys(MEANS, _mean),
    }
)
