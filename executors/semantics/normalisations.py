"""Normalisations and local response."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.placement import Array
from ir.ops.normalisation import LAYER_NORMS, MEAN_VARIANCE_EPSILON
from ir.semantics.arrays import np
from ir.semantics.call import Call, Semantics


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


def _moments(data: Array, dims: tuple[int, ...]) -> tuple[Array, Array]:
    mean = np.mean(data, axis=dims, keepdims=True)
    return mean, np.mean(np.square(data - mean), axis=dims, keepdims=True)


def _layer_norm(call: Call) -> list[Array]:
    data = call[0]
    dims = tuple(range(call.int("axis", data.ndim - 1), data.ndim))
    epsilon = call.float("epsilon", 1e-5)
    if call.op.kind == "LayerNormalization":
        mean, variance = _moments(data, dims)
        inverse = 1 / np.sqrt(variance + epsilon)
        found = [affine(call, (data - mean) * inverse, None), mean, inverse]
    else:
        inverse = 1 / np.sqrt(np.mean(np.square(data), axis=dims, keepdims=True) + epsilon)
        found = [affine(call, data * inverse, None), inverse]
    return found[: len(call.result_dims)]


def _batch_norm(call: Call) -> list[Array]:
    data, epsilon = call[0], call.float("epsilon", 1e-5)
    if not call.int("training", 1):
        mean, variance = along(call[3], 1, data.ndim), along(call[4], 1, data.ndim)
        return [affine(call, (data - mean) / np.sqrt(variance + epsilon), 1)]
    mean, variance = _moments(data, tuple(d for d in range(data.ndim) if d != 1))
    found = [affine(call, (data - mean) / np.sqrt(variance + epsilon), 1)]
    if len(call.result_dims) > 1:
        kept = call.float("momentum", 0.9)
        for running, own in ((call[3], mean), (call[4], variance)):
            found.append(running * kept + np.reshape(own, running.shape) * (1 - kept))
    return found[: len(call.result_dims)]


def _instance_norm(call: Call) -> list[Array]:
    data = call[0]
    mean, variance = _moments(data, tuple(range(2, data.ndim)))
    normal = (data - mean) / np.sqrt(variance + call.float("epsilon", 1e-5))
    return [affine(call, normal, 1)]


def _group_norm(call: Call) -> list[Array]:
    """Scale and bias have a number for each channel, before opset 21 for each group."""
    data, groups = call[0], call.int("num_groups", 1)
    parts = np.reshape(data, (data.shape[0], groups, -1))
    mean, variance = _moments(parts, (2,))
    out = (parts - mean) / np.sqrt(variance + call.float("epsilon", 1e-5))
    if call[1].shape[0] == groups:
        return [np.reshape(affine(call, out, 1), data.shape)]
    return [affine(call, np.reshape(out, data.shape), 1)]


def _lp_norm(call: Call) -> list[Array]:
    """A line of zeros stays one."""
    data = call[0]
    axis, p = call.int("axis", data.ndim - 1), call.int("p", 2)
    total = np.sum(np.abs(data) if p == 1 else np.square(data), axis=axis, keepdims=True)
    return [divided_by_norm(data, total, p)]


def divided_by_norm(data: Array, total: Array, p: int) -> Array:
    """Numbers over the norm, which comes as the sum of the powers."""
    safe = np.where(total == 0, 1.0, total)
    return np.where(total == 0, 0.0, data / (safe if p == 1 else np.sqrt(safe)))


def _mean_variance(call: Call) -> list[Array]:
    data = call[0]
    mean, variance = _moments(data, call.ints("axes", (0, 2, 3)))
    return [(data - mean) / (np.sqrt(variance) + MEAN_VARIANCE_EPSILON)]


def _local_response(call: Call) -> list[Array]:
    data, size = call[0], call.int("size", 5)
    band = _channel_window(data.shape[1], size)
    squares = np.einsum("nc...,dc->nd...", np.square(data), band)
    alpha, beta, bias = call.float("alpha", 1e-4), call.float("beta", 0.75), call.float("bias", 1.0)
    return [data / (bias + alpha / size * squares) ** beta]


def _channel_window(channels: int, size: int) -> Array:
    """Row by row, the channels whose squares count for one channel."""
    offset = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    return ((offset >= -((size - 1) // 2)) & (offset <= size // 2)).astype(float)


NORMALISATIONS: Mapping[str, Semantics] = MappingProxyType(
    {
        **dict.fromkeys(LAYER_NORMS, _layer_norm),
        "BatchNormalization": _batch_norm,
        "InstanceNormalization": _instance_norm,
        "GroupNormalization": _group_norm,
        "LpNormalization": _lp_norm,
        "MeanVarianceNormalization": _mean_variance,
        "LRN": _local_response,
    }
)
