"""Operators on the part of one device: by the algorithms of `executors.device_algorithms`.

DTensor has no rule for these that keeps the split: along a split dimension it would gather. What is
sent is what the rules of `ir.ops` say.
"""

from __future__ import annotations

from typing import Any

import torch

from executors.device import Backward, Running, driven, view_of
from executors.device_algorithms import DEVICE_ALGORITHMS
from executors.dtensor.arrays import torch_results
from executors.dtensor.part import Part
from ir.ops.reduction import EXTREMES, reduced_axes


def run_part(part: Part) -> list[Any]:
    """Run an operator on one device's part."""
    kind = part.op.kind
    if kind in EXTREMES:
        return _extreme(part)
    if kind not in DEVICE_ALGORITHMS:
        return part.run()
    return torch_results(part.call(), lambda _: _driven(part, DEVICE_ALGORITHMS[kind](part)))


def _driven(part: Part, running: Running) -> list[Any]:
    """The algorithm to its end; what it sends goes to the other processes."""
    return driven(
        running,
        lambda sent: part.all_reduce(sent.array, sent.axes, sent.combine.value, sent.backward),
    )


def _extreme(part: Part) -> list[Any]:
    """Elements that are equally large, wherever they are, have equal shares of the gradient."""
    dims = reduced_axes(view_of(part))
    axes = part.axes_of(0, dims)
    if not axes:
        return part.run()
    data = part.operands[0]
    sign = EXTREMES[part.op.kind]
    keep = len(part.results[0].dims) == len(part.dims(0))
    own = torch.amax(sign * data.detach(), dims, keepdim=True)
    top = sign * part.all_reduce(own, axes, "max", Backward.NOTHING)
    found = _Shared.apply(data, top, dims, part)
    return [found if keep else found.reshape(part.call().result_dims[0])]


class _Shared(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """The largest number, whose gradient is shared among the elements that are it."""

    @staticmethod
    def forward(ctx: Any, data: Any, top: Any, dims: tuple[int, ...], part: Part) -> Any:
        ctx.chosen, ctx.dims, ctx.part = data == top, dims, part
        return top.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        count = ctx.chosen.to(gradient.dtype).sum(ctx.dims, keepdim=True)
        axes = ctx.part.axes_of(0, ctx.dims)
        count = ctx.part.all_reduce(count, axes, "sum", Backward.NOTHING)
        return torch.where(ctx.chosen, gradient / count, 0.0), None, None, None
