"""Losses that a model computes itself, and what their algorithms share with them."""

from __future__ import annotations

from executors.placement import Array
from ir.graph import Op
from ir.ops.losses import CROSS_ENTROPY
from ir.semantics.arrays import constant, np, of_places
from ir.semantics.call import Call


def weights_of(op: Op, targets: Array, weight: Array | None) -> Array:
    """Weight of every row: that of its class, zero where it is to be ignored."""
    ignored = op.attributes.get("ignore_index")
    kept = np.ones(targets.shape, dtype=bool) if ignored is None else targets != ignored
    if weight is None:
        return np.where(kept, 1.0, 0.0)
    return np.where(kept, weight[np.where(kept, targets, 0)], 0.0)


def of_targets(array: Array, targets: Array, first: int = 0) -> Array:
    """What an array has for the class of every row; zero for classes that it does not have.

    Args:
        array: classes are dimension 1, from `first` on.
        targets: class of every row.
        first: number of the first class.
    """
    return of_places(array, targets - first)


def class_loss(call: Call) -> list[Array]:
    data, targets = call[0], call[1]
    if call.op.kind == CROSS_ENTROPY:
        shifted = data - np.max(constant(data), axis=1, keepdims=True)
        data = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    weight = call[2] if call.has(2) else None
    weights = weights_of(call.op, targets, weight)
    rows = -weights * of_targets(data, targets)
    reduction = call.op.attributes.get("reduction", "mean")
    if reduction == "mean":
        rows = np.sum(rows) / np.sum(weights)
    elif reduction == "sum":
        rows = np.sum(rows)
    return [rows, data][: len(call.result_dims)]
