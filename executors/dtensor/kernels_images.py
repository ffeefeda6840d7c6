"""Convolutions and pooling of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from executors.dtensor.call import Call
from executors.semantics.windows import paddings

_CONVOLUTIONS = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)
_TRANSPOSED = (
    torch.nn.functional.conv_transpose1d,
    torch.nn.functional.conv_transpose2d,
    torch.nn.functional.conv_transpose3d,
)
_MAXIMA = (
    torch.nn.functional.max_pool1d,
    torch.nn.functional.max_pool2d,
    torch.nn.functional.max_pool3d,
)
_MEANS = (
    torch.nn.functional.avg_pool1d,
    torch.nn.functional.avg_pool2d,
    torch.nn.functional.avg_pool3d,
)


def _padded(call: Call, widths: Sequence[tuple[int, int]], value: float) -> Any:
    """The image with its padding made, or cut where no window sees the end."""
    flat = [n for pair in reversed(widths) for n in pair]
    return torch.nn.functional.pad(call[0], flat, value=value) if any(flat) else call[0]


def conv(call: Call) -> list[Any]:
    data, weight = call[0], call[1]
    kernel = tuple(weight.shape[2:])
    rank = len(kernel)
    widths = paddings(call, call[0].shape[2:], kernel)
    even = all(a == b for a, b in widths)
    image = data if even else _padded(call, widths, 0.0)
    groups = data.shape[1] // weight.shape[1]
    return [
        _CONVOLUTIONS[rank - 1](
            image,
            weight,
            stride=call.ints("strides", (1,) * rank),
            padding=[a for a, _ in widths] if even else 0,
            dilation=call.ints("dilations", (1,) * rank),
            groups=groups,
        )
    ]


def conv_transpose(call: Call) -> list[Any]:
    """Without padding; what the result has not is cut off, what nothing reaches is zero."""
    data, weight = call[0], call[1]
    rank = weight.ndim - 2
    if str(call.op.attributes.get("auto_pad", "NOTSET")) != "NOTSET":
        raise NotImplementedError("padding that follows from the result")
    made, size = call.result_dims[0][1], call.result_dims[0][2:]
    found = _TRANSPOSED[rank - 1](
        data, weight, stride=call.ints("strides", (1,) * rank), groups=made // weight.shape[1],
        dilation=call.ints("dilations", (1,) * rank),
    )  # fmt: skip
    begins = call.ints("pads", (0,) * (2 * rank))[:rank]
    for i, (begin, wanted) in enumerate(zip(begins, size, strict=True)):
        found = found.narrow(2 + i, begin, min(wanted, found.shape[2 + i] - begin))
    short = [n for i in reversed(range(rank)) for n in (0, size[i] - found.shape[2 + i])]
    return [torch.nn.functional.pad(found, short) if any(short) else found]


def max_pool(call: Call) -> list[Any]:
    if len(call.result_dims) > 1:
        raise NotImplementedError("places of the largest elements")
    kernel = call.ints("kernel_shape")
    rank = len(kernel)
    image = _padded(call, paddings(call, call[0].shape[2:], kernel), float("-inf"))
    strides, dilations = call.ints("strides", (1,) * rank), call.ints("dilations", (1,) * rank)
    return [_MAXIMA[rank - 1](image, kernel, strides, 0, dilations)]


def average_pool(call: Call) -> list[Any]:
    kernel = call.ints("kernel_shape")
    rank, widths = len(kernel), paddings(call, call[0].shape[2:], kernel)
    if any(d != 1 for d in call.ints("dilations", (1,) * rank)):
        raise NotImplementedError("an average over dilated windows")
    strides = call.ints("strides", (1,) * rank)
    pads = call.ints("pads", (0,) * (2 * rank))
    if any(widths[i] != (pads[i], pads[i]) for i in range(rank)):
        raise NotImplementedError("an average over windows that are padded unevenly")
    counted = bool(call.int("count_include_pad"))
    return [_MEANS[rank - 1](call[0], kernel, strides, pads[:rank], count_include_pad=counted)]
