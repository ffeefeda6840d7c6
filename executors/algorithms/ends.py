"""The loss that stands at the end of a graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import autograd.numpy as anp
import numpy as np

from executors.placement import Array
from executors.spmd import Algorithm, Backward, OperatorRun, Shards, alone
from ir.ops import LOSS


def _loss(task: OperatorRun) -> Shards:
    """Mean over the rows of softmax cross-entropy, with the row's number as its class.

    A vector has one score in each row, of the class that an odd row has.
    """
    data = task.operand(0)
    if not data.layout.split_axes:
        return task.local()
    if len(data.dims) == 1:
        return alone([_binary(task, rank) for rank in task.ranks])
    last = len(data.dims) - 1
    axes = task.axes_of(0, (last,))
    rows = math.prod(data.dims[:-1])
    parts = data.shards
    largest = task.all_reduce([_max(x, last) for x in parts], axes, anp.maximum)
    sums = [
        anp.sum(anp.exp(x - m), axis=last, keepdims=True)
        for x, m in zip(parts, largest, strict=True)
    ]
    sums = task.all_reduce(sums, axes, anp.add, Backward.OWN)
    found = [_target(task, rank) for rank in task.ranks]
    targets = task.all_reduce(found, axes, anp.add, Backward.OWN)
    every = zip(largest, sums, targets, strict=True)
    return alone([anp.sum(m + anp.log(s) - t) / rows for m, s, t in every])


def _max(array: Array, dim: int) -> Array:
    return anp.max(array, axis=dim, keepdims=True)


def _binary(task: OperatorRun, rank: int) -> Array:
    """The device's rows of a vector of scores: a term of the mean."""
    data = task.operand(0)
    ((first, end),) = data.box(rank)
    scores, odd = data.shards[rank], (task.int("first_row") + np.arange(first, end)) % 2
    return anp.sum(anp.logaddexp(scores, 0.0) - odd * scores) / data.dims[0]


def _target(task: OperatorRun, rank: int) -> Array:
    """Logit of each row's class, zero where another device has it."""
    data = task.operand(0)
    box, part = data.box(rank), data.shards[rank]
    places = [np.arange(first, end) for first, end in box[:-1]]
    number = np.zeros([len(p) for p in places], dtype=np.int64)
    for dim, place in enumerate(places):
        shape = [-1 if d == dim else 1 for d in range(len(places))]
        number = number + place.reshape(shape) * math.prod(data.dims[dim + 1 : -1])
    wanted = (task.int("first_row") + number) % data.dims[-1] - box[-1][0]
    mine = (wanted >= 0) & (wanted < part.shape[-1])
    chosen = mine[..., None] & (np.arange(part.shape[-1]) == wanted[..., None])
    return anp.sum(anp.where(chosen, part, 0.0), axis=-1, keepdims=True)


ENDS: Mapping[str, Algorithm] = MappingProxyType({LOSS: _loss})
