"""Normalisations: statistics over a split dimension are exchanged."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from executors.device_algorithms.device import (
    AllReduce,
    Backward,
    Device,
    DeviceAlgorithm,
    Running,
    view_of,
)
from executors.semantics.normalisations import affine, divided_by_norm
from ir.ops.normalisation import LAYER_NORMS, MEAN_VARIANCE_EPSILON
from ir.semantics.arrays import constant, np

Dims: TypeAlias = tuple[int, ...]


def _total(device: Device, array: Any, dims: Dims) -> Generator[AllReduce, Any, Any]:
    """The sum over dimensions; what follows differs on every device."""
    own = np.sum(array, axis=dims, keepdims=True)
    return (yield AllReduce(own, device.axes_of(0, dims), backward=Backward.SUM))


def _mean_of(device: Device, array: Any, dims: Dims) -> Generator[AllReduce, Any, Any]:
    total = yield from _total(device, array, dims)
    return total / math.prod(device.dims(0)[d] for d in dims)


def _moments(device: Device, dims: Dims) -> Generator[AllReduce, Any, tuple[Any, Any, Any]]:
    """Differences from the mean, mean and variance."""
    data = device.operands[0]
    mean = yield from _mean_of(device, data, dims)
    centred = data - mean
    variance = yield from _mean_of(device, np.square(centred), dims)
    return centred, mean, variance


def _as_result(device: Device, dims: Dims, statistics: Any) -> Any:
    """Statistics that are results: all devices of a group have the same gradient of them, which
    counts once in the sum of what they send back.
    """
    group = device.group_size(device.axes_of(0, dims))
    return statistics / group + constant(statistics) * (1 - 1 / group)


def _layer_norm(device: Device) -> Running:
    data, call = device.operands[0], device.call()
    dims = tuple(range(call.int("axis", data.ndim - 1), data.ndim))
    if not device.axes_of(0, dims):
        return device.run()
    extra = []
    if device.op.kind == "LayerNormalization":
        centred, mean, variance = yield from _moments(device, dims)
        extra = [_as_result(device, dims, mean)]
    else:
        centred = data
        variance = yield from _mean_of(device, np.square(data), dims)
    epsilon = call.float("epsilon", 1e-5)
    extra.append(1 / np.sqrt(_as_result(device, dims, variance) + epsilon))
    found = affine(call, centred / np.sqrt(variance + epsilon), None)
    return [found, *extra][: len(device.results)]


def _batch_norm(device: Device) -> Running:
    """With the statistics of the batch, as in training, unless the operator says otherwise."""
    call = device.call()
    dims = tuple(d for d in range(len(device.dims(0))) if d != 1)
    if not call.int("training", 1) or not device.axes_of(0, dims):
        return device.run()
    centred, mean, variance = yield from _moments(device, dims)
    normal = centred / np.sqrt(variance + call.float("epsilon", 1e-5))
    found = [affine(call, normal, 1)]
    if len(device.results) > 1:
        kept = call.float("momentum", 0.9)
        for index, statistics in ((3, mean), (4, variance)):
            running, own = device.operands[index], _as_result(device, dims, statistics)
            found.append(running * kept + np.reshape(own, running.shape) * (1 - kept))
    return found[: len(device.results)]


def _instance_norm(device: Device) -> Running:
    call, dims = device.call(), tuple(range(2, len(device.dims(0))))
    if not device.axes_of(0, dims):
        return device.run()
    centred, _, variance = yield from _moments(device, dims)
    return [affine(call, centred / np.sqrt(variance + call.float("epsilon", 1e-5)), 1)]


def _lp_norm(device: Device) -> Running:
    data, p = device.operands[0], device.call().int("p", 2)
    dims = (device.call().int("axis", data.ndim - 1),)
    if not device.axes_of(0, dims):
        return device.run()
    total = yield from _total(device, np.abs(data) if p == 1 else np.square(data), dims)
    return [divided_by_norm(data, total, p)]


def _mean_variance(device: Device) -> Running:
    dims = view_of(device).ints("axes") or (0, 2, 3)
    if not device.axes_of(0, dims):
        return device.run()
    centred, _, variance = yield from _moments(device, dims)
    return [centred / (np.sqrt(variance) + MEAN_VARIANCE_EPSILON)]


def _global_norm(device: Device) -> Running:
    """The norm of whole images, whose sums are exchanged."""
    data, power = device.operands[0], device.call().int("p", 2)
    dims = tuple(range(2, data.ndim))
    axes = device.axes_of(0, dims)
    if not axes:
        return device.run()
    own = np.sum(np.abs(data) ** power, axis=dims, keepdims=True)
    total = yield AllReduce(own, axes, backward=Backward.OWN)
    return [total ** (1.0 / power)]


NORMALISATIONS: Mapping[str, DeviceAlgorithm] = MappingProxyType(
    {
        **dict.fromkeys(LAYER_NORMS, _layer_norm),
        "BatchNormalization": _batch_norm,
        "InstanceNormalization": _instance_norm,
        "LpNormalization": _lp_norm,
        "MeanVarianceNormalization": _mean_variance,
        "GlobalLpPool": _global_norm,
    }
)
