"""Operators on the part of one device that are more than the operator on smaller operands.

DTensor has no rule for these that keeps the split: along a split dimension it would gather. What is
sent is what the rules of `ir.ops` say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from executors.dtensor.kernels import KERNELS
from executors.dtensor.kernels_statistics import POWERS, along
from executors.dtensor.losses import SPLIT_LOSSES
from executors.dtensor.part import Part
from executors.spmd import Backward, with_attributes
from ir.ops import LOSS, OpView
from ir.ops.normalisation import LAYER_NORMS
from ir.ops.reduction import EXTREMES, MEANS, SOFTMAXES, reduced_axes, statistics_axes

Algorithm = Callable[[Part], list[Any]]


def plain(part: Part) -> list[Any]:
    """The operator on smaller operands."""
    if part.op.kind not in KERNELS:
        raise NotImplementedError(f"{part.op.kind} is not written for torch")
    return KERNELS[part.op.kind](part.call())


def _view(part: Part) -> OpView:
    return OpView(part.op, part.graph)


def _softmax(part: Part) -> list[Any]:
    dims = statistics_axes(_view(part))
    axes = part.axes_of(0, dims)
    if not axes:
        return plain(part)
    data = part.operands[0]
    top = part.all_reduce(
        torch.amax(data.detach(), dims, keepdim=True), axes, "max", Backward.NOTHING
    )
    shifted = data - top
    total = part.all_reduce(torch.exp(shifted).sum(dims, keepdim=True), axes)
    if part.op.kind == "Softmax":
        return [torch.exp(shifted) / total]
    return [shifted - torch.log(total)]


def _moments(part: Part, dims: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Differences from the mean, mean and variance."""
    data, axes = part.operands[0], part.axes_of(0, dims)
    count = math.prod(part.dims(0)[d] for d in dims)
    mean = part.all_reduce(data.sum(dims, keepdim=True), axes) / count
    centred = data - mean
    variance = part.all_reduce(torch.square(centred).sum(dims, keepdim=True), axes) / count
    return centred, mean, variance


def _layer_norm(part: Part) -> list[Any]:
    data, call = part.operands[0], part.call()
    dims = tuple(range(call.int("axis", data.ndim - 1), data.ndim))
    axes = part.axes_of(0, dims)
    if not axes:
        return plain(part)
    epsilon = call.float("epsilon", 1e-5)
    if part.op.kind == "LayerNormalization":
        centred, mean, variance = _moments(part, dims)
        extra = [mean]
    else:
        count = math.prod(part.dims(0)[d] for d in dims)
        centred, extra = data, []
        variance = part.all_reduce(torch.square(data).sum(dims, keepdim=True), axes) / count
    inverse = torch.rsqrt(variance + epsilon)
    out = centred * inverse
    for index, combine in ((1, torch.mul), (2, torch.add)):
        out = combine(out, part.operands[index]) if part.has(index) else out
    return [out, *extra, inverse][: len(part.results)]


def _batch_norm(part: Part) -> list[Any]:
    data, call = part.operands[0], part.call()
    dims = tuple(d for d in range(data.ndim) if d != 1)
    if not call.int("training", 1) or not part.axes_of(0, dims):
        return plain(part)
    centred, mean, variance = _moments(part, dims)
    out = centred * torch.rsqrt(variance + call.float("epsilon", 1e-5))
    scale, bias = (along(part.operands[i], 1, data.ndim) for i in (1, 2))
    kept, found = call.float("momentum", 0.9), [out * scale + bias]
    for index, own in ((3, mean), (4, variance)):
        if len(part.results) > 1:
            running = part.operands[index]
            found.append(running * kept + own.detach().reshape(running.shape) * (1 - kept))
    return found[: len(part.results)]


def _loss(part: Part) -> list[Any]:
    """A term of the mean; split classes exchange maximum, sum and the score of the target."""
    data, dims = part.operands[0], part.dims(0)
    if not part.axes_of(0, range(len(dims))):
        return plain(part)
    places = [part.place(0, d) for d in range(len(dims))]
    if len(dims) == 1:
        odd = (places[0] % 2).to(data.dtype)
        return [(torch.nn.functional.softplus(data) - odd * data).sum() / dims[0]]
    axes = part.axes_of(0, (len(dims) - 1,))
    number = torch.zeros([1] * (len(dims) - 1), dtype=torch.int64, device=data.device)
    for dim, place in enumerate(places[:-1]):
        number = number + along(place, dim, len(dims) - 1) * math.prod(dims[dim + 1 : -1])
    chosen = (number % dims[-1]).unsqueeze(-1) == places[-1]
    top = torch.amax(data.detach(), -1, keepdim=True)
    top = part.all_reduce(top, axes, "max", Backward.NOTHING)
    total = torch.exp(data - top).sum(-1, keepdim=True)
    total = part.all_reduce(total, axes, "sum", Backward.OWN)
    score = torch.where(chosen, data, torch.zeros_like(data)).sum(-1, keepdim=True)
    score = part.all_reduce(score, axes, "sum", Backward.OWN)
    return [(top + torch.log(total) - score).sum() / math.prod(dims[:-1])]


def _gather(part: Part) -> list[Any]:
    """Rows that another device has are zeros here."""
    axis = part.call().int("axis")
    table, rows = part.operands[0], part.operands[1]
    if not part.axes_of(0, (axis,)):
        return plain(part)
    size, place = part.dims(0)[axis], part.place(0, axis)
    first = (
        place[:1] if table.shape[axis] else torch.zeros(1, dtype=torch.int64, device=rows.device)
    )
    wanted = torch.where(rows < 0, rows + size, rows) - first
    mine = (wanted >= 0) & (wanted < table.shape[axis])
    if not table.shape[axis]:
        return [table.new_zeros(part.call().result_dims[0])]
    safe = torch.where(mine, wanted, torch.zeros_like(wanted))
    found = KERNELS["Gather"](part.call(operands=[table, safe]))[0]
    shape = [1] * found.ndim
    shape[axis : axis + rows.ndim] = rows.shape
    return [torch.where(mine.reshape(shape), found, torch.zeros_like(found))]


def _gather_nd(part: Part) -> list[Any]:
    """A coordinate that is the position itself counts from where the part begins."""
    call = part.call()
    rows = part.operands[1].clone()
    for dim in call.ints("identity_coordinates")[::2]:
        rows[..., dim - call.int("batch_dims")] -= part.place(0, dim)[0]
    return KERNELS["GatherND"](part.call(operands=[part.operands[0], rows]))


def _mean(part: Part) -> list[Any]:
    """A term of the mean: the sum over the number of all elements."""
    rank = len(part.dims(0))
    mean = part.op.kind == "ReduceMean"
    dims = reduced_axes(_view(part)) if mean else tuple(range(2, rank))
    keep = not mean or len(part.results[0].dims) == rank
    count = math.prod(part.dims(0)[d] for d in dims)
    return [part.operands[0].sum(dims, keepdim=keep) / count]


def _powers(before: Callable[[Any], Any], after: Callable[[Any], Any]) -> Algorithm:
    def run(part: Part) -> list[Any]:
        dims = reduced_axes(_view(part))
        keep = len(part.results[0].dims) == len(part.dims(0))
        total = before(part.operands[0]).sum(dims, keepdim=keep)
        return [after(part.all_reduce(total, part.axes_of(0, dims), "sum", Backward.OWN))]

    return run


def _extreme(part: Part) -> list[Any]:
    """Elements that are equally large, wherever they are, have equal shares of the gradient."""
    dims = reduced_axes(_view(part))
    axes = part.axes_of(0, dims)
    if not axes:
        return plain(part)
    data = part.operands[0]
    sign = 1 if part.op.kind == "ReduceMax" else -1
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


def _attention(part: Part) -> list[Any]:
    """Heads of the device where they are an attribute; rows count from the first that it has."""
    op, own = part.op, dict[str, int]()
    if len(part.dims(0)) == 3:
        for index, key in ((0, "q_num_heads"), (1, "kv_num_heads")):
            width = part.operands[index].shape[-1]
            own[key] = part.call().int(key) * width // part.dims(index)[-1]
    rows = len(part.dims(0)) - 2
    if part.axes_of(0, (rows,)):
        layout = part.split.operands[0]
        assert layout is not None
        own["first_row"] = int(part.grid.region(part.dims(0), layout)[rows][0])
    return KERNELS["Attention"](part.call(with_attributes(op, **own)))


def _rotary(part: Part) -> list[Any]:
    own = dict[str, int]()
    if len(part.dims(0)) == 3:
        width = part.operands[0].shape[-1]
        own["num_heads"] = part.call().int("num_heads") * width // part.dims(0)[-1]
    return KERNELS["RotaryEmbedding"](part.call(with_attributes(part.op, **own)))


def _expand(part: Part) -> list[Any]:
    """A dimension that the operand has in full is cut to the part that is left of it."""
    return [part.operands[0].expand(part.call().result_dims[0])]


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        **dict.fromkeys(SOFTMAXES, _softmax),
        **dict.fromkeys(LAYER_NORMS, _layer_norm),
        "BatchNormalization": _batch_norm,
        LOSS: _loss,
        **SPLIT_LOSSES,
        "Gather": _gather,
        "GatherND": _gather_nd,
        **dict.fromkeys(MEANS, _mean),
        **{kind: _powers(*functions) for kind, functions in POWERS.items()},
        **dict.fromkeys(EXTREMES, _extreme),
        "RotaryEmbedding": _rotary,
        "Expand": _expand,
    }
)
"""Kinds that are more than themselves on smaller operands. Attention without parts is apart."""


def run_part(part: Part) -> list[Any]:
    """Run an operator on one device's part."""
    if part.op.kind == "Attention":
        return _attention(part)
    return ALGORITHMS.get(part.op.kind, plain)(part)
