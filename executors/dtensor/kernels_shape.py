"""Operators that move elements, by functions that torch has of its own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from executors.dtensor.call import Call, Kernel


def _split(call: Call) -> list[Any]:
    axis = call.int("axis")
    return list(torch.split(call[0], [dims[axis] for dims in call.result_dims], dim=axis))


def _pad(call: Call) -> list[Any]:
    computed = "pads" not in call.op.attributes or call.has(1)
    if computed or call.op.attributes.get("mode", "constant") != "constant":
        raise NotImplementedError("padding that is computed or reflects")
    axes, pads = call.ints("axes"), call.ints("pads")
    widths = [0] * (2 * call[0].ndim)
    for axis, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        place = 2 * (call[0].ndim - 1 - axis)
        widths[place : place + 2] = [before, after]
    return [torch.nn.functional.pad(call[0], widths, value=call.float("value", 0.0))]


SHAPE: Mapping[str, Kernel] = MappingProxyType({"Split": _split, "Pad": _pad})
