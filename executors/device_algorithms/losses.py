"""Losses: classes and rows may be split."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any

from executors.device import (
    AllReduce,
    Backward,
    Device,
    DeviceAlgorithm,
    Running,
    view_of,
    with_attributes,
)
from executors.semantics.losses import of_targets, weights_of
from ir.graph import OpGraph
from ir.ops import LOSS
from ir.ops.losses import CLASS_LOSSES, CROSS_ENTROPY, divides_by_weights
from ir.semantics.arrays import np
from ir.semantics.statistics import Combine, largest

Exchanges = Generator[AllReduce, Any, Any]


def _class_loss(device: Device) -> Running:
    dims = device.dims(0)
    classes = device.axes_of(0, (1,))
    rows = device.axes_of(0, (0, *range(2, len(dims))))
    if not classes and not rows:
        return device.run()
    reduction = device.op.attributes.get("reduction", "mean")
    if classes:
        loss, *rest = yield from _of_split_classes(device, classes)
    else:
        inner = "none" if reduction == "none" else "sum"
        loss, *rest = device.run(with_attributes(device.op, reduction=inner))
    if reduction != "none":
        loss = np.sum(loss)
    if reduction == "mean":
        loss = yield from _mean(device, loss, rows)
    return [loss, *rest]


def _mean(device: Device, total: Any, axes: tuple[int, ...]) -> Exchanges:
    """A sum over the weights of all rows; without weights their number is known."""
    if not divides_by_weights(view_of(device)):
        return total / math.prod(device.dims(1))
    weights = yield AllReduce(np.sum(_weights(device)), axes)
    total = yield AllReduce(total, axes, backward=Backward.OWN)
    return total / weights


def _weights(device: Device) -> Any:
    weight = device.operands[2] if device.has(2) else None
    return weights_of(device.op, device.operands[1], weight)


def _of_split_classes(device: Device, axes: tuple[int, ...]) -> Exchanges:
    """The loss of each row, or the device's term of it, and the logarithms."""
    data = device.operands[0]
    if device.op.kind == CROSS_ENTROPY:
        found, data = yield from _log_softmax(device, axes)
    else:
        found = _own_targets(device, data)
    return [-_weights(device) * found, data][: len(device.results)]


def _own_targets(device: Device, array: Any) -> Any:
    return of_targets(array, device.operands[1], device.first(0, 1))


def _log_softmax(device: Device, axes: tuple[int, ...]) -> Exchanges:
    """Logarithms of the targets' probabilities, and of all. Unless all of them are a result, what
    follows the sum is the same on every device.
    """
    data = device.operands[0]
    top = yield AllReduce(largest(data, (1,)), axes, Combine.MAX)
    shifted = data - top
    backward = Backward.SUM if len(device.results) > 1 else Backward.OWN
    own = np.sum(np.exp(shifted), axis=1, keepdims=True)
    logs = np.log((yield AllReduce(own, axes, backward=backward)))
    every = shifted - logs if backward is Backward.SUM else shifted
    found = yield AllReduce(_own_targets(device, every), axes, backward=Backward.OWN)
    return (found if backward is Backward.SUM else found - logs[:, 0]), every


def _loss(device: Device) -> Running:
    """Mean over the rows of softmax cross-entropy, with the row's number as its class.

    A vector has one score in each row, of the class that an odd row has.
    """
    data, dims = device.operands[0], device.dims(0)
    if not device.axes_of(0, range(len(dims))):
        return device.run()
    if len(dims) == 1:
        odd = (device.call().int("first_row") + device.place(0, 0)) % 2
        return [np.sum(np.logaddexp(data, 0.0) - odd * data) / dims[0]]
    last = len(dims) - 1
    axes = device.axes_of(0, (last,))
    top = yield AllReduce(np.max(data, axis=last, keepdims=True), axes, Combine.MAX)
    own = np.sum(np.exp(data - top), axis=last, keepdims=True)
    total = yield AllReduce(own, axes, backward=Backward.OWN)
    score = yield AllReduce(_target(device), axes, backward=Backward.OWN)
    return [np.sum(top + np.log(total) - score) / math.prod(dims[:-1])]


def _target(device: Device) -> Any:
    """Score of each row's class, zero where another device has it."""
    data, dims = device.operands[0], device.dims(0)
    last = len(dims) - 1
    number: Any = device.call().int("first_row")
    for dim in range(last):
        shape = [-1 if d == dim else 1 for d in range(last)]
        number = number + np.reshape(device.place(0, dim), shape) * math.prod(dims[dim + 1 : -1])
    chosen = (number % dims[-1])[..., None] == device.place(0, last)
    return np.sum(np.where(chosen, data, 0.0), axis=last, keepdims=True)


LOSSES: Mapping[str, DeviceAlgorithm] = MappingProxyType(
    {LOSS: _loss, **dict.fromkeys(CLASS_LOSSES, _class_loss)}
)


def sums_losses(graph: OpGraph) -> bool:
    """Whether a model's own loss is a sum over its rows, not a mean."""
    losses = (op for op in graph.ops if op.kind in CLASS_LOSSES)
    return any(op.attributes.get("reduction") == "sum" for op in losses)
