"""Normalisations: statistics over a split dimension are exchanged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import autograd.numpy as np
from autograd.tracer import getval

from executors.placement import Array
from executors.semantics.normalisations import along, divided_by_norm
from executors.spmd import Algorithm, Backward, OperatorRun, Shards, alone
from ir.ops.normalisation import LAYER_NORMS, MEAN_VARIANCE_EPSILON

Dims = tuple[int, ...]


def _total(task: OperatorRun, parts: Sequence[Array], dims: Dims) -> list[Array]:
    """Sums over dimensions; what follows differs on every device."""
    sums = [np.sum(x, axis=dims, keepdims=True) for x in parts]
    return task.all_reduce(sums, task.axes_of(0, dims), np.add, Backward.SUM)


def _moments(task: OperatorRun, dims: Dims) -> tuple[list[Array], list[Array], list[Array]]:
    """Differences from the mean, means and variances."""
    parts = task.operand(0).shards
    count = math.prod(task.operand(0).dims[d] for d in dims)
    means = [s / count for s in _total(task, parts, dims)]
    centred = [x - m for x, m in zip(parts, means, strict=True)]
    squares = _total(task, [np.square(x) for x in centred], dims)
    return centred, means, [s / count for s in squares]


def _affine(task: OperatorRun, arrays: Sequence[Array], channel: int | None) -> list[Array]:
    """Times the scale, plus the bias; `channel` is their dimension where they are vectors."""
    out = list(arrays)
    for index, combine in ((1, np.multiply), (2, np.add)):
        if task.has(index):
            vectors = task.operand(index).shards
            out = [
                combine(x, v if channel is None else along(v, channel, x.ndim))
                for x, v in zip(out, vectors, strict=True)
            ]
    return out


def _as_result(task: OperatorRun, dims: Dims, statistics: Sequence[Array]) -> list[Array]:
    """Statistics that are results: all devices of a group have the same gradient of them, which
    counts once in the sum of what they send back.
    """
    sizes = task.mesh.sizes
    group = math.prod(sizes[a] for a in task.axes_of(0, dims))
    return [s / group + getval(s) * (1 - 1 / group) for s in statistics]


def _layer_norm(task: OperatorRun) -> Shards:
    data = task.operand(0)
    dims = tuple(range(task.int("axis", len(data.dims) - 1), len(data.dims)))
    if not task.axes_of(0, dims):
        return task.local()
    extra: list[list[Array]] = []
    if task.op.kind == "LayerNormalization":
        centred, means, variances = _moments(task, dims)
        extra = [_as_result(task, dims, means)]
    else:
        centred = list(data.shards)
        count = math.prod(data.dims[d] for d in dims)
        variances = [s / count for s in _total(task, [np.square(x) for x in centred], dims)]
    epsilon = _epsilon(task)
    extra.append([1 / np.sqrt(v + epsilon) for v in _as_result(task, dims, variances)])
    out = [x / np.sqrt(v + epsilon) for x, v in zip(centred, variances, strict=True)]
    found = [_affine(task, out, None), *extra]
    return [list(of_rank) for of_rank in zip(*found[: len(task.results)], strict=True)]


def _epsilon(task: OperatorRun) -> float:
    return float(str(task.op.attributes.get("epsilon", 1e-5)))


def _batch_norm(task: OperatorRun) -> Shards:
    """With the statistics of the batch, as in training, unless the operator says otherwise."""
    dims = tuple(d for d in range(len(task.operand(0).dims)) if d != 1)
    if not task.int("training", 1) or not task.axes_of(0, dims):
        return task.local()
    centred, means, variances = _moments(task, dims)
    epsilon = _epsilon(task)
    out = [x / np.sqrt(v + epsilon) for x, v in zip(centred, variances, strict=True)]
    found = [_affine(task, out, 1)]
    kept = float(str(task.op.attributes.get("momentum", 0.9)))
    for index, statistics in ((3, means), (4, variances)):
        if len(task.results) > 1:
            pairs = zip(task.operand(index).shards, _as_result(task, dims, statistics), strict=True)
            found.append([r * kept + np.reshape(s, r.shape) * (1 - kept) for r, s in pairs])
    return [list(of_rank) for of_rank in zip(*found[: len(task.results)], strict=True)]


def _instance_norm(task: OperatorRun) -> Shards:
    dims = tuple(range(2, len(task.operand(0).dims)))
    if not task.axes_of(0, dims):
        return task.local()
    centred, _, variances = _moments(task, dims)
    epsilon = _epsilon(task)
    out = [x / np.sqrt(v + epsilon) for x, v in zip(centred, variances, strict=True)]
    return alone(_affine(task, out, 1))


def _lp_norm(task: OperatorRun) -> Shards:
    data, p = task.operand(0), task.int("p", 2)
    dims = (task.int("axis", len(data.dims) - 1),)
    if not task.axes_of(0, dims):
        return task.local()
    totals = _total(task, [np.abs(x) if p == 1 else np.square(x) for x in data.shards], dims)
    return alone([divided_by_norm(x, t, p) for x, t in zip(data.shards, totals, strict=True)])


def _mean_variance(task: OperatorRun) -> Shards:
    value = task.op.attributes.get("axes", (0, 2, 3))
    dims = tuple(int(v) for v in value) if isinstance(value, tuple) else (int(str(value)),)
    if not task.axes_of(0, dims):
        return task.local()
    centred, _, variances = _moments(task, dims)
    pairs = zip(centred, variances, strict=True)
    return alone([x / (np.sqrt(v) + MEAN_VARIANCE_EPSILON) for x, v in pairs])


NORMALISATIONS: Mapping[str, Algorithm] = MappingProxyType(
    {
        **dict.fromkeys(LAYER_NORMS, _layer_norm),
        "BatchNormalization": _batch_norm,
        "InstanceNormalization": _instance_norm,
        "LpNormalization": _lp_norm,
        "MeanVarianceNormalization": _mean_variance,
    }
)
