"""Losses that a model computes itself, whole and on the part of one device."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from executors.dtensor.call import Call, Kernel
from executors.dtensor.part import Part
from executors.spmd import Backward
from ir.ops import OpView
from ir.ops.losses import CLASS_LOSSES, CROSS_ENTROPY, divides_by_weights


def _weights(call: Call) -> Any:
    """Weight of every row: that of its class, zero where it is to be ignored."""
    targets, ignored = call[1], call.op.attributes.get("ignore_index")
    kept = torch.ones_like(targets, dtype=torch.bool) if ignored is None else targets != ignored
    if not call.has(2):
        return kept.to(call[0].dtype)
    safe = torch.where(kept, targets, torch.zeros_like(targets))
    return torch.where(kept, call[2][safe], torch.zeros((), dtype=call[2].dtype))


def _of_targets(array: Any, targets: Any, first: int = 0) -> Any:
    """What an array has for the class of every row; zero for classes that it does not have."""
    own = targets - first
    mine = (own >= 0) & (own < array.shape[1])
    safe = torch.where(mine, own, torch.zeros_like(own)).unsqueeze(1)
    found = torch.gather(array, 1, safe).squeeze(1)
    return torch.where(mine, found, torch.zeros_like(found))


def _rows(call: Call) -> tuple[Any, Any]:
    """Loss of every row, times its weight, and the logarithms."""
    likely = call[0]
    if call.op.kind == CROSS_ENTROPY:
        likely = torch.log_softmax(likely, 1)
    return -_weights(call) * _of_targets(likely, call[1]), likely


def _loss(call: Call) -> list[Any]:
    rows, likely = _rows(call)
    reduction = call.op.attributes.get("reduction", "mean")
    if reduction == "mean":
        rows = rows.sum() / _weights(call).sum()
    elif reduction == "sum":
        rows = rows.sum()
    return [rows, likely][: len(call.result_dims)]


def _loss_of_part(part: Part) -> list[Any]:
    dims = part.dims(0)
    classes = part.axes_of(0, (1,))
    rows_axes = part.axes_of(0, (0, *range(2, len(dims))))
    call = part.call()
    if not classes and not rows_axes:
        return _loss(call)
    rows, likely = _of_split_classes(part, classes) if classes else _rows(call)
    reduction = call.op.attributes.get("reduction", "mean")
    if reduction != "none":
        rows = rows.sum()
    if reduction == "mean":
        rows = _mean(part, rows, rows_axes)
    return [rows, likely][: len(part.results)]


def _mean(part: Part, total: Any, axes: tuple[int, ...]) -> Any:
    """A sum over the weights of all rows; without weights their number is known."""
    if not divides_by_weights(OpView(part.op, part.graph)):
        return total / math.prod(part.dims(1))
    weights = part.all_reduce(_weights(part.call()).sum(), axes, "sum", Backward.NOTHING)
    return part.all_reduce(total, axes, "sum", Backward.OWN) / weights


def _of_split_classes(part: Part, axes: tuple[int, ...]) -> tuple[Any, Any]:
    data, targets, call = part.operands[0], part.operands[1], part.call()
    first = part.first(0, 1)
    if call.op.kind != CROSS_ENTROPY:
        return -_weights(call) * _of_targets(data, targets, first), data
    top = torch.amax(data.detach(), 1, keepdim=True)
    shifted = data - part.all_reduce(top, axes, "max", Backward.NOTHING)
    backward = Backward.SUM if len(part.results) > 1 else Backward.OWN
    total = torch.exp(shifted).sum(1, keepdim=True)
    logs = torch.log(part.all_reduce(total, axes, "sum", backward))
    every = shifted - logs if backward is Backward.SUM else shifted
    found = part.all_reduce(_of_targets(every, targets, first), axes, "sum", Backward.OWN)
    found = found if backward is Backward.SUM else found - logs[:, 0]
    return -_weights(call) * found, every


LOSSES: Mapping[str, Kernel] = MappingProxyType(dict.fromkeys(CLASS_LOSSES, _loss))
SPLIT_LOSSES: Mapping[str, Callable[[Part], list[Any]]] = MappingProxyType(
    dict.fromkeys(CLASS_LOSSES, _loss_of_part)
)
