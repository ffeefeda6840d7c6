"""Operators that move or rename elements."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from executors.dtensor.call import Call, Kernel
from ir.ops.shape import RESHAPES


def _reshape(call: Call) -> list[Any]:
    return [call[0].reshape(call.result_dims[0])]


def _transpose(call: Call) -> list[Any]:
    return [call[0].permute(call.ints("perm", tuple(reversed(range(call[0].ndim)))))]


def _expand(call: Call) -> list[Any]:
    """Operand and shape broadcast to each other."""
    return [call[0].expand(call.result_dims[0])]


def _squeeze(call: Call) -> list[Any]:
    return [call[0].squeeze(call.ints("axes"))]


def _unsqueeze(call: Call) -> list[Any]:
    data = call[0]
    for axis in sorted(call.ints("axes")):
        data = data.unsqueeze(axis)
    return [data]


def _slice(call: Call) -> list[Any]:
    if call.has(1):
        raise NotImplementedError("a slice whose bounds are computed")
    axes, starts, ends = (call.ints(k) for k in ("slice_axes", "starts", "ends"))
    steps = call.ints("steps", (1,) * len(axes))
    data = call[0]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if axis not in call.ints("axes"):
            continue
        if step < 0:
            raise NotImplementedError("a slice that runs backwards")
        first, last, _ = slice(start, end, step).indices(data.shape[axis])
        if (first, last, step) != (0, data.shape[axis], 1):
            data = data[(slice(None),) * axis + (slice(first, last, step),)]
    return [data]


def _split(call: Call) -> list[Any]:
    axis = call.int("axis")
    return list(torch.split(call[0], [dims[axis] for dims in call.result_dims], dim=axis))


def _concat(call: Call) -> list[Any]:
    return [torch.cat(list(call.operands), dim=call.int("axis"))]


def _pad(call: Call) -> list[Any]:
    if "pads" not in call.op.attributes or call.op.attributes.get("mode", "constant") != "constant":
        raise NotImplementedError("padding that is computed or reflects")
    axes, pads = call.ints("axes"), call.ints("pads")
    widths = [0] * (2 * call[0].ndim)
    for axis, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        place = 2 * (call[0].ndim - 1 - axis)
        widths[place : place + 2] = [before, after]
    return [torch.nn.functional.pad(call[0], widths, value=call.float("value", 0.0))]


SHAPE: Mapping[str, Kernel] = MappingProxyType(
    {
        **dict.fromkeys(RESHAPES, _reshape),
        "Squeeze": _squeeze,
        "Unsqueeze": _unsqueeze,
        "Transpose": _transpose,
        "Expand": _expand,
        "Slice": _slice,
        "Split": _split,
        "Concat": _concat,
        "Pad": _pad,
    }
)
