"""Softmax, layer norm and losses by torch's own functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.nn import functional

from executors.dtensor.call import Call, Kernel
from executors.dtensor.numbers import same_kind
from ir.ops import LOSS
from ir.ops.losses import CLASS_LOSSES, CROSS_ENTROPY
from ir.ops.normalisation import LAYER_NORMS
from ir.ops.reduction import SOFTMAXES


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


def _loss(call: Call) -> list[Any]:
    """Mean over the rows of softmax cross-entropy, with the row's number as its class; a vector
    has one score in each row, of the class that an odd row has.
    """
    data, first = call[0], call.int("first_row")
    if not data.ndim:
        return [data]
    if data.ndim == 1:
        odd = (first + torch.arange(data.shape[0], device=data.device)) % 2
        scores = torch.nn.functional.softplus(data) - same_kind(data, odd.to(data.dtype)) * data
        return [scores.sum() / data.shape[0]]
    rows, classes = math.prod(data.shape[:-1]), data.shape[-1]
    number = (first + torch.arange(rows, device=data.device)) % classes
    wanted = same_kind(data, number.reshape((*data.shape[:-1], 1)))
    likely = torch.log_softmax(data, dim=-1)
    return [-torch.gather(likely, data.ndim - 1, wanted).sum() / rows]


def _class_loss(call: Call) -> list[Any]:
    """Of what one device has: DTensor would gather the rows of a mean."""
    scores, weight = call[0], call[2] if call.has(2) else None
    if isinstance(scores, DTensor):
        raise NotImplementedError("the loss of a DTensor")
    if call.op.kind == CROSS_ENTROPY:
        scores = torch.log_softmax(scores, 1)
    how = str(call.op.attributes.get("reduction", "mean"))
    ignored = call.int("ignore_index", _NO_CLASS)
    found = functional.nll_loss(scores, call[1].long(), weight, ignore_index=ignored, reduction=how)
    return [found, scores][: len(call.result_dims)]


_NO_CLASS = -100
"""What torch ignores unless told otherwise."""

STATISTICS: Mapping[str, Kernel] = MappingProxyType(
    {
        **{
            k: _softmax(torch.log_softmax if log else torch.softmax) for k, log in SOFTMAXES.items()
        },
        **{k: _layer_norm for k, centred in LAYER_NORMS.items() if centred},
        LOSS: _loss,
        **dict.fromkeys(CLASS_LOSSES, _class_loss),
    }
)
