"""Reductions, softmax, normalisations and the loss, where no statistics are exchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from executors.dtensor.call import Call, Kernel
from executors.dtensor.numbers import same_kind
from ir.ops import LOSS
from ir.ops.normalisation import RMS_NORMS


def reduced_dims(call: Call) -> tuple[int, ...]:
    """Dimensions that a reduction removes or shrinks to one."""
    return call.ints("axes", tuple(range(call[0].ndim)))


def keeps(call: Call) -> bool:
    """Whether reduced dimensions stay with size 1."""
    return len(call.result_dims[0]) == call[0].ndim


def _sum(call: Call) -> list[Any]:
    dims = reduced_dims(call)
    return [call[0].sum(dims, keepdim=keeps(call)) if dims else call[0]]


def _mean(call: Call) -> list[Any]:
    """A sum over a known count: DTensor's own mean would be a sum of means."""
    dims = reduced_dims(call)
    return [call[0].sum(dims, keepdim=keeps(call)) / math.prod(call[0].shape[d] for d in dims)]


def _powers(before: Callable[[Any], Any], after: Callable[[Any], Any]) -> Kernel:
    return lambda call: [after(before(call[0]).sum(reduced_dims(call), keepdim=keeps(call)))]


def _same(tensor: Any) -> Any:
    return tensor


POWERS: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = MappingProxyType(
    {
        "ReduceSumSquare": (torch.square, _same),
        "ReduceL1": (torch.abs, _same),
        "ReduceL2": (torch.square, torch.sqrt),
    }
)
"""Sums of powers: what is added, and what becomes of the sum."""


def _extreme(function: Callable[..., Any]) -> Kernel:
    return lambda call: [function(call[0], reduced_dims(call), keepdim=keeps(call))]


def _softmax(function: Callable[..., Any]) -> Kernel:
    def run(call: Call) -> list[Any]:
        axis = call.int("axis", call[0].ndim - 1)
        if call.int("to_end") and axis < call[0].ndim - 1:
            flat = function(call[0].flatten(axis), dim=axis)
            return [flat.reshape(call.result_dims[0])]
        return [function(call[0], dim=axis)]

    return run


def _layer_norm(call: Call) -> list[Any]:
    data = call[0]
    axis, epsilon = call.int("axis", data.ndim - 1), call.float("epsilon", 1e-5)
    shape = data.shape[axis:]
    scale, bias = (call[i].expand(shape) if call.has(i) else None for i in (1, 2))
    found = torch.native_layer_norm(data, shape, scale, bias, epsilon)
    return list(found[: len(call.result_dims)])


def _rms_norm(call: Call) -> list[Any]:
    data = call[0]
    dims = tuple(range(call.int("axis", data.ndim - 1), data.ndim))
    count = math.prod(data.shape[d] for d in dims)
    mean = torch.square(data).sum(dims, keepdim=True) / count
    inverse = torch.rsqrt(mean + call.float("epsilon", 1e-5))
    return [data * inverse * call[1], inverse][: len(call.result_dims)]


def along(vector: Any, dim: int, rank: int) -> Any:
    """A vector as a tensor of one long dimension."""
    return vector.reshape([-1 if d == dim else 1 for d in range(rank)])


def _batch_norm(call: Call) -> list[Any]:
    data, epsilon = call[0], call.float("epsilon", 1e-5)
    scale, bias = (along(call[i], 1, data.ndim) for i in (1, 2))
    if not call.int("training", 1):
        mean, variance = (along(call[i], 1, data.ndim) for i in (3, 4))
        return [(data - mean) * torch.rsqrt(variance + epsilon) * scale + bias]
    dims = tuple(d for d in range(data.ndim) if d != 1)
    count = math.prod(data.shape[d] for d in dims)
    mean = data.sum(dims, keepdim=True) / count
    centred = data - mean
    variance = torch.square(centred).sum(dims, keepdim=True) / count
    found = [centred * torch.rsqrt(variance + epsilon) * scale + bias]
    kept = call.float("momentum", 0.9)
    for index, own in ((3, mean), (4, variance)):
        if len(call.result_dims) > 1:
            found.append(call[index] * kept + own.reshape(call[index].shape) * (1 - kept))
    return found[: len(call.result_dims)]


def _loss(call: Call) -> list[Any]:
    """Mean over the rows of softmax cross-entropy, with the row's number as its class; a vector
    has one score in each row, of the class that an odd row has.
    """
    data = call[0]
    if not data.ndim:
        return [data]
    if data.ndim == 1:
        odd = torch.arange(data.shape[0], device=data.device) % 2
        scores = torch.nn.functional.softplus(data) - same_kind(data, odd.to(data.dtype)) * data
        return [scores.sum() / data.shape[0]]
    rows, classes = math.prod(data.shape[:-1]), data.shape[-1]
    number = torch.arange(rows, device=data.device) % classes
    wanted = same_kind(data, number.reshape((*data.shape[:-1], 1)))
    likely = torch.log_softmax(data, dim=-1)
    return [-torch.gather(likely, data.ndim - 1, wanted).sum() / rows]


STATISTICS: Mapping[str, Kernel] = MappingProxyType(
    {
        "ReduceSum": _sum,
        "ReduceMean": _mean,
        **{kind: _powers(*functions) for kind, functions in POWERS.items()},
        "ReduceMax": _extreme(torch.amax),
        "ReduceMin": _extreme(torch.amin),
        "Softmax": _softmax(torch.softmax),
        "LogSoftmax": _softmax(torch.log_softmax),
        "LayerNormalization": _layer_norm,
        **dict.fromkeys(RMS_NORMS, _rms_norm),
        "BatchNormalization": _batch_norm,
        LOSS: _loss,
    }
)
