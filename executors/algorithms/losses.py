"""Losses that a model computes itself: classes and rows may be split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import autograd.numpy as np

from executors.placement import Array
from executors.semantics.losses import of_targets, weights_of
from executors.semantics.statistics import largest
from executors.spmd import Algorithm, Backward, OperatorRun, Shards, with_attributes
from ir.graph import OpGraph
from ir.ops import OpView
from ir.ops.losses import CLASS_LOSSES, CROSS_ENTROPY, divides_by_weights


def _loss(task: OperatorRun) -> Shards:
    classes = task.axes_of(0, (1,))
    dims = task.operand(0).dims
    rows = task.axes_of(0, (0, *range(2, len(dims))))
    if not classes and not rows:
        return task.local()
    if classes:
        terms = _of_split_classes(task, classes)
    else:
        terms = task.local(lambda _: with_attributes(task.op, reduction=_inner(task)))
    reduction = task.op.attributes.get("reduction", "mean")
    losses = [np.sum(t[0]) if reduction != "none" else t[0] for t in terms]
    if reduction == "mean":
        losses = _means(task, losses, rows)
    return [[loss, *t[1:]] for loss, t in zip(losses, terms, strict=True)]


def _inner(task: OperatorRun) -> str:
    return "none" if task.op.attributes.get("reduction") == "none" else "sum"


def _means(task: OperatorRun, sums: list[Array], rows: tuple[int, ...]) -> list[Array]:
    """Sums over the weights of all rows; without weights their number is known."""
    if not divides_by_weights(OpView(task.op, task.graph)):
        count = task.operand(1).dims
        return [s / np.prod(count) for s in sums]
    weights = [np.sum(_weights(task, rank)) for rank in task.ranks]
    totals = task.all_reduce(weights, rows, np.add)
    sums = task.all_reduce(sums, rows, np.add, Backward.OWN)
    return [s / w for s, w in zip(sums, totals, strict=True)]


def _weights(task: OperatorRun, rank: int) -> Array:
    weight = task.operand(2).shards[rank] if task.has(2) else None
    return weights_of(task.op, task.operand(1).shards[rank], weight)


def _of_split_classes(task: OperatorRun, axes: tuple[int, ...]) -> list[list[Array]]:
    """For every rank the loss of each row, or its term of it, and the logarithms."""
    if task.op.kind == CROSS_ENTROPY:
        found, logarithms = _log_softmax(task, axes)
    else:
        logarithms = list(task.operand(0).shards)
        found = _own_targets(task, logarithms)
    return [
        [-_weights(task, rank) * found[rank], logarithms[rank]][: len(task.results)]
        for rank in task.ranks
    ]


def _own_targets(task: OperatorRun, arrays: Sequence[Array]) -> list[Array]:
    return [
        of_targets(x, task.operand(1).shards[rank], task.operand(0).box(rank)[1][0])
        for rank, x in enumerate(arrays)
    ]


def _log_softmax(task: OperatorRun, axes: tuple[int, ...]) -> tuple[list[Array], list[Array]]:
    """Logarithms of the targets' probabilities, and of all. Unless all of them are a result, what
    follows the sum is the same on every device.
    """
    parts = task.operand(0).shards
    tops = task.all_reduce([largest(x, (1,)) for x in parts], axes, np.maximum)
    shifted = [x - m for x, m in zip(parts, tops, strict=True)]
    sums = [np.sum(np.exp(x), axis=1, keepdims=True) for x in shifted]
    backward = Backward.SUM if len(task.results) > 1 else Backward.OWN
    logs = [np.log(s) for s in task.all_reduce(sums, axes, np.add, backward)]
    if backward is Backward.SUM:
        every = [x - s for x, s in zip(shifted, logs, strict=True)]
        return task.all_reduce(_own_targets(task, every), axes, np.add, Backward.OWN), every
    found = task.all_reduce(_own_targets(task, shifted), axes, np.add, Backward.OWN)
    return [x - s[:, 0] for x, s in zip(found, logs, strict=True)], shifted


LOSSES: Mapping[str, Algorithm] = MappingProxyType(dict.fromkeys(CLASS_LOSSES, _loss))


def sums_losses(graph: OpGraph) -> bool:
    """Whether a model's own loss is a sum over its rows, not a mean."""
    return any(op.kind in LOSSES and op.attributes.get("reduction") == "sum" for op in graph.ops)
