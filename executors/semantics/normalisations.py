"""Normalisations and local response.

Where statistics are exchanged between devices that have parts, what one device does is written
once: `executors.device_algorithms` runs it where dimensions are split, and here it runs alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from executors.device import AllReduce, Alone, Backward, Holder, Running, driven
from executors.placement import Array
from ir.ops.normalisation import LAYER_NORMS, MEAN_VARIANCE_EPSILON
from ir.semantics.arrays import constant, np
from ir.semantics.call import Call, CallOf

Dims: TypeAlias = tuple[int, ...]
DimsOf: TypeAlias = Callable[[CallOf[Any]], Dims]
Algorithm: TypeAlias = Callable[[Holder, Dims], Running]


@dataclass(frozen=True, slots=True)
class OverStatistics:
    """What a device computes with statistics, alone or with others that have the rest of them."""

    dims_of: DimsOf
    """Dimensions of the statistics."""
    algorithm: Algorithm

    def __call__(self, call: Call) -> list[Array]:
        running = self.algorithm(Alone(call), self.dims_of(call))
        return driven(running, lambda sent: sent.array)


def _over(dims_of: DimsOf) -> Callable[[Algorithm], OverStatistics]:
    return lambda algorithm: OverStatistics(dims_of, algorithm)


def _last_dims(call: CallOf[Any]) -> Dims:
    return tuple(range(call.int("axis", call[0].ndim - 1), call[0].ndim))


def _positions(call: CallOf[Any]) -> Dims:
    return tuple(range(2, call[0].ndim))


def along(vector: Array, dim: int, rank: int) -> Array:
    """A vector as a tensor of one long dimension."""
    return np.reshape(vector, [-1 if d == dim else 1 for d in range(rank)])


def affine(call: Call, array: Array, dim: int | None) -> Array:
    """Times the scale, plus the bias; `dim` is that of their numbers where they are vectors."""
    for index, combine in ((1, np.multiply), (2, np.add)):
        if call.has(index):
            vector = call[index] if dim is None else along(call[index], dim, array.ndim)
            array = combine(array, vector)
    return array


def _total(device: Holder, array: Array, dims: Dims) -> Generator[AllReduce, Any, Any]:
    """The sum over dimensions; what follows differs on every device."""
    own = np.sum(array, axis=dims, keepdims=True)
    return (yield AllReduce(own, device.axes_of(0, dims), backward=Backward.SUM))


def _mean_of(device: Holder, array: Array, dims: Dims) -> Generator[AllReduce, Any, Any]:
    """Of a device that has all of it at once: sums of short types may leave their range."""
    if not device.axes_of(0, dims):
        return np.mean(array, axis=dims, keepdims=True)
    total = yield from _total(device, array, dims)
    return total / math.prod(device.dims(0)[d] for d in dims)


def _moments(device: Holder, dims: Dims) -> Generator[AllReduce, Any, tuple[Any, Any, Any]]:
    """Differences from the mean, mean and variance."""
    data = device.call()[0]
    mean = yield from _mean_of(device, data, dims)
    centred = data - mean
    variance = yield from _mean_of(device, np.square(centred), dims)
    return centred, mean, variance


def _as_result(device: Holder, dims: Dims, statistics: Array) -> Array:
    """Statistics that are results: all devices of a group have the same gradient of them, which
    counts once in the sum of what they send back.
    """
    group = device.group_size(device.axes_of(0, dims))
    return statistics if group == 1 else statistics / group + constant(statistics) * (1 - 1 / group)


@_over(_last_dims)
def layer_norm(device: Holder, dims: Dims) -> Running:
    call, extra = device.call(), []
    if LAYER_NORMS[call.op.kind]:
        centred, mean, variance = yield from _moments(device, dims)
        extra = [_as_result(device, dims, mean)]
    else:
        centred = call[0]
        variance = yield from _mean_of(device, np.square(centred), dims)
    epsilon = call.float("epsilon", 1e-5)
    extra.append(1 / np.sqrt(_as_result(device, dims, variance) + epsilon))
    found = affine(call, centred / np.sqrt(variance + epsilon), None)
    return [found, *extra][: len(call.result_dims)]


@_over(lambda call: (0, *_positions(call)))
def batch_norm(device: Holder, dims: Dims) -> Running:
    """With the statistics of the batch, as in training, unless the operator says otherwise."""
    call = device.call()
    data, epsilon = call[0], call.float("epsilon", 1e-5)
    if not call.int("training", 1):
        mean, variance = along(call[3], 1, data.ndim), along(call[4], 1, data.ndim)
        return [affine(call, (data - mean) / np.sqrt(variance + epsilon), 1)]
    centred, mean, variance = yield from _moments(device, dims)
    found = [affine(call, centred / np.sqrt(variance + epsilon), 1)]
    if len(call.result_dims) > 1:
        kept = call.float("momentum", 0.9)
        for running, statistics in ((call[3], mean), (call[4], variance)):
            own = _as_result(device, dims, statistics)
            found.append(running * kept + np.reshape(own, running.shape) * (1 - kept))
    return found[: len(call.result_dims)]


@_over(_positions)
def instance_norm(device: Holder, dims: Dims) -> Running:
    call = device.call()
    centred, _, variance = yield from _moments(device, dims)
    return [affine(call, centred / np.sqrt(variance + call.float("epsilon", 1e-5)), 1)]


@_over(lambda call: _last_dims(call)[:1])
def lp_norm(device: Holder, dims: Dims) -> Running:
    """A line of zeros stays one."""
    data, p = device.call()[0], device.call().int("p", 2)
    total = yield from _total(device, np.abs(data) if p == 1 else np.square(data), dims)
    safe = np.where(total == 0, 1.0, total)
    return [np.where(total == 0, 0.0, data / (safe if p == 1 else np.sqrt(safe)))]


@_over(lambda call: call.ints("axes") or (0, 2, 3))
def mean_variance(device: Holder, dims: Dims) -> Running:
    centred, _, variance = yield from _moments(device, dims)
    return [centred / (np.sqrt(variance) + MEAN_VARIANCE_EPSILON)]


@_over(_positions)
def global_norm(device: Holder, dims: Dims) -> Running:
    """The norm of whole images."""
    power = device.call().int("p", 2)
    own = np.sum(np.abs(device.call()[0]) ** power, axis=dims, keepdims=True)
    total = yield AllReduce(own, device.axes_of(0, dims), backward=Backward.OWN)
    return [total ** (1.0 / power)]


def group_norm(call: Call) -> list[Array]:
    """Scale and bias have a number for each channel, before opset 21 for each group."""
    data, groups = call[0], call.int("num_groups", 1)
    parts = np.reshape(data, (data.shape[0], groups, -1))
    centred = parts - np.mean(parts, axis=2, keepdims=True)
    variance = np.mean(np.square(centred), axis=2, keepdims=True)
    out = centred / np.sqrt(variance + call.float("epsilon", 1e-5))
    if call[1].shape[0] == groups:
        return [np.reshape(affine(call, out, 1), data.shape)]
    return [affine(call, np.reshape(out, data.shape), 1)]


def local_response(call: Call) -> list[Array]:
    data, size = call[0], call.int("size", 5)
    band = _channel_window(data.shape[1], size)
    squares = np.einsum("nc...,dc->nd...", np.square(data), band)
    alpha, beta, bias = call.float("alpha", 1e-4), call.float("beta", 0.75), call.float("bias", 1.0)
    return [data / (bias + alpha / size * squares) ** beta]


def _channel_window(channels: int, size: int) -> Array:
    """Row by row, the channels whose squares count for one channel."""
    offset = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    return ((offset >= -((size - 1) // 2)) & (offset <= size // 2)).astype(float)
