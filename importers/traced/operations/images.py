"""Convolutions, pooling and resizing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call, with_arguments
from importers.traced.operations.norms import check_channels_first
from importers.traced.table import spelled
from ir.graph import Tensor


def spread(values: Sequence[int], rank: int) -> list[int]:
    """One number for every dimension of the space; batch and channels may have some too."""
    return list(values) * rank if len(values) == 1 else list(values)[-rank:]


_CONVOLUTION = "input, weight, bias, stride, padding"
_SHARED = "out_channel, kernel_size, mode, pad_mode, pad, stride, dilation, group as groups"


@spelled(
    aten=f"convolution _convolution({_CONVOLUTION}, dilation, transposed, output_padding, groups);"
    "conv1d.{default,padding} conv2d.{default,padding} conv3d.{default,padding}"
    f"({_CONVOLUTION}, dilation, groups)",
    mindir=f"Conv2D Conv3D(x as input, w as weight, {_SHARED}, data_format);"
    f"Conv2DExt Conv2DPadding({_CONVOLUTION}, dilation, groups);"
    f"Convolution({_CONVOLUTION}, dilation, transposed, output_padding, groups)",
)
def _convolution(call: Call) -> None:
    """With the weight's space; `padding` may be a word."""
    value, weight = call.tensor("input"), call.tensor("weight")
    check_channels_first(call)
    rank = len(weight.dims) - 2
    if len(value.dims) != rank + 2:
        raise UnsupportedError(call.target)
    stride, dilation = (spread(call.ints(n, (1,)), rank) for n in ("stride", "dilation"))
    windows = [d * (k - 1) + 1 for k, d in zip(weight.dims[2:], dilation, strict=True)]
    kind = "ConvTranspose" if call.flag("transposed") else "Conv"
    attributes: dict[str, Any] = {
        "strides": stride, "dilations": dilation,
        "pads": _pads(call, value.dims[2:], windows, stride), "kernel_shape": [*weight.dims[2:]],
    }  # fmt: skip
    if kind == "ConvTranspose":
        attributes["output_padding"] = spread(call.ints("output_padding", (0,)), rank)
    group = call.int("groups", 1)
    call.emit(kind, [value, weight, call.optional("bias")], group=group, **attributes)


def _pads(
    call: Call, space: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> list[int]:
    """For each dimension of the space in front, then behind."""
    rank = len(space)
    if "pad_mode" in call.arguments:
        return _pads_by_mode(call, space, windows, strides)
    word = call.get("padding", 0)
    if word == "same":
        return _halved([w - 1 for w in windows])
    if word == "valid":
        return [0] * (2 * rank)
    return spread(call.ints("padding", (0,)), rank) * 2


def _halved(total: Sequence[int]) -> list[int]:
    return [*(t // 2 for t in total), *(t - t // 2 for t in total)]


_PAD_MODES: Mapping[object, str] = {0: "pad", 1: "same", 2: "valid"}
"""`PadMode` of MindSpore."""


def _pad_mode(call: Call) -> str:
    word = call.get("pad_mode", "valid")
    return _PAD_MODES.get(word, str(word).lower())


def _pads_by_mode(
    call: Call, space: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> list[int]:
    """As MindSpore tells them; `same` lets every stride begin a window."""
    rank, mode = len(space), _pad_mode(call)
    if mode == "same":
        sizes = zip(space, call.result.dims[2:], windows, strides, strict=True)
        return _halved([max((out - 1) * step + w - size, 0) for size, out, w, step in sizes])
    if mode != "pad":
        return [0] * (2 * rank)
    pad = call.ints("pad", (0,))
    if len(pad) == 1:
        return list(pad) * (2 * rank)
    if len(pad) != 2 * rank:
        raise call.fault(f"it has {len(pad)} pads for {rank} dimensions")
    return [*pad[::2], *pad[1::2]]


spelled(
    aten=f"conv_transpose1d({_CONVOLUTION}, output_padding, groups, dilation);"
    "conv_transpose2d.input conv_transpose3d.input"
    f"({_CONVOLUTION}, output_padding, groups, dilation)"
)(with_arguments(_convolution, transposed=True))


@spelled(
    mindir="Conv2DTranspose Conv2DBackpropInput(out_backprop as input, filter as weight,"
    "input_sizes)"
)
def _transposed(call: Call) -> None:
    """The result's size is an operand: what is missing is added behind."""
    value, weight = call.tensor("input"), call.tensor("weight")
    check_channels_first(call)
    rank = len(weight.dims) - 2
    stride, dilation = (spread(call.ints(n, (1,)), rank) for n in ("stride", "dilation"))
    kernel, out = list(weight.dims[2:]), call.result.dims[2:]
    windows = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    spans = [(n - 1) * s + w for n, s, w in zip(value.dims[2:], stride, windows, strict=True)]
    if _pad_mode(call) == "pad":
        pads = _pads_by_mode(call, value.dims[2:], windows, stride)
    else:
        pads = _halved([max(s - o, 0) for s, o in zip(spans, out, strict=True)])
    left = [
        o - s + pads[i] + pads[i + rank] for i, (o, s) in enumerate(zip(out, spans, strict=True))
    ]
    call.emit(
        "ConvTranspose", [value, weight], group=call.int("group", 1), strides=stride,
        dilations=dilation, pads=pads, kernel_shape=kernel, output_padding=left,
    )  # fmt: skip


@parametrised
def _pooled(call: Call, kind: str, rank: int = 0) -> None:
    """Windows over the last dimensions; where they were found is for the backward pass."""
    value = call.tensor("self")
    check_channels_first(call)
    rank = rank or len(value.dims) - 2
    if len(value.dims) != rank + 2 or call.is_read(1) or call.get("divisor_override"):
        raise UnsupportedError(call.target)
    kernel = spread(call.ints("kernel_size"), rank)
    stride = spread(call.ints("stride"), rank) or kernel
    pads = _pads(call, value.dims[2:], kernel, stride)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "pads": pads}
    by_mode = "pad_mode" in call.arguments
    if call.flag("ceil_mode") or not by_mode:
        attributes["ceil_mode"] = int(call.flag("ceil_mode"))
    if kind == "AveragePool":
        counted = call.flag("count_include_pad", default=not by_mode)
        attributes["count_include_pad"] = int(counted)
    elif not by_mode:
        attributes["dilations"] = spread(call.ints("dilation") or (1,), rank)
    call.emit(kind, [value], count=1, **attributes)


_WINDOW = "self, kernel_size, stride, padding"
_WIDE = f"{_WINDOW}, dilation, ceil_mode"
_MEAN = f"{_WINDOW}, ceil_mode, count_include_pad"
spelled(aten=f"max_pool1d({_WIDE})")(_pooled("MaxPool", 1))
spelled(aten=f"max_pool2d max_pool2d_with_indices({_WIDE})")(_pooled("MaxPool", 2))
spelled(aten=f"max_pool3d({_WIDE})")(_pooled("MaxPool", 3))
spelled(aten=f"avg_pool1d({_MEAN})")(_pooled("AveragePool", 1))
spelled(
    aten=f"avg_pool2d({_MEAN}, divisor_override)",
    mindir="AvgPool2D(input as self, kernel_size, stride, padding, ceil_mode, count_include_pad,"
    "divisor_override)",
)(_pooled("AveragePool", 2))
spelled(aten=f"avg_pool3d({_MEAN}, divisor_override)")(_pooled("AveragePool", 3))


_MODED = "kernel_size, strides as stride, pad_mode"
spelled(
    mindir=f"MaxPool(x as self, {_MODED}, data_format);"
    f"MaxPool3D(x as self, {_MODED}, pad_list as pad, ceil_mode, data_format);"
    "MaxPool3DWithArgmax(x as self, ksize as kernel_size, strides as stride, pads as padding,"
    "dilation, ceil_mode); MaxPoolWithMask MaxPoolWithIndices(x as self, kernel_size,"
    "strides as stride, pads as padding, dilation, ceil_mode, argmax_type)"
)(_pooled("MaxPool"))
spelled(
    mindir=f"AvgPool(x as self, {_MODED}, data_format); AvgPool3D(input as self, {_MODED}, pad,"
    "ceil_mode, count_include_pad, divisor_override, data_format)"
)(_pooled("AveragePool"))


@parametrised
def _adaptive(call: Call, kind: str, rank: int) -> None:
    """To one number: the whole space; to a divisor of its size: windows of equal size."""
    value = call.tensor("self")
    if len(value.dims) != rank + 2 or call.is_read(1):
        raise UnsupportedError(call.target)
    space, wanted = value.dims[2:], call.result.dims[2:]
    if wanted == space:
        call.alias(value)
    elif set(wanted) == {1}:
        call.emit(f"Global{kind}", [value], count=1)
    elif all(s % w == 0 for s, w in zip(space, wanted, strict=True)):
        window = [s // w for s, w in zip(space, wanted, strict=True)]
        call.emit(kind, [value], count=1, kernel_shape=window, strides=window)
    else:
        raise UnsupportedError(call.target)


spelled(aten="adaptive_avg_pool1d(self, output_size)")(_adaptive("AveragePool", 1))
spelled(
    aten="adaptive_avg_pool2d _adaptive_avg_pool2d(self, output_size)",
    mindir="AdaptiveAvgPool2D(x as self, output_size);"
    "AdaptiveAvgPool2DExt(input as self, output_size)",
)(_adaptive("AveragePool", 2))
spelled(aten="adaptive_avg_pool3d(self, output_size)")(_adaptive("AveragePool", 3))
spelled(aten="adaptive_max_pool2d(self, output_size)")(_adaptive("MaxPool", 2))


@parametrised
def _resized(call: Call, mode: str, *, half_pixel: bool) -> None:
    """To the sizes that the tracer noted."""
    value: Tensor = call.tensor("self")
    aligned = call.flag("align_corners")
    half = call.flag("half_pixel_centers", default=half_pixel)
    place = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": place}
    if mode == "nearest":
        attributes["nearest_mode"] = "round_prefer_ceil" if aligned else "floor"
    if mode == "cubic":
        attributes["cubic_coeff_a"] = -0.75
    sizes = call.shape(call.result.dims)
    call.emit("Resize", [value, None, None, sizes], **attributes)


def _upsampled(names: str, scales: str, corners: str = "align_corners, ") -> str:
    """Both overloads of operators: with scales one by one, and as a list."""
    each = [f"upsample_{name}" for name in names.split()]
    lists = [f"{name}.vec" for name in each]
    return (
        f"{' '.join(each)}(self, output_size, {corners}{scales});"
        f"{' '.join(lists)}(input as self, output_size, {corners}scale_factors)"
    )


spelled(
    aten=";".join(
        (_upsampled("nearest1d", "scales", ""), _upsampled("nearest2d", "scales_h, scales_w", ""),
         _upsampled("nearest3d", "scales_d, scales_h, scales_w", ""))
    ),
    mindir="ResizeNearestNeighbor(input_x as self, size, align_corners, half_pixel_centers);"
    "ResizeNearestNeighborV2(image as self, size, align_corners, half_pixel_centers);"
    "UpsampleNearest2D(x as self, output_size, scales)",
)(_resized("nearest", half_pixel=False))  # fmt: skip
spelled(
    aten=";".join(
        (_upsampled("linear1d", "scales"), _upsampled("bilinear2d", "scales_h, scales_w"),
         _upsampled("trilinear3d", "scales_d, scales_h, scales_w"))
    ),
    mindir="UpsampleBilinear2D(x as self, output_size, scales, align_corners)",
)(_resized("linear", half_pixel=True))  # fmt: skip
spelled(mindir="ResizeBilinearV2(image as self, size, align_corners, half_pixel_centers)")(
    _resized("linear", half_pixel=False)
)
spelled(aten=_upsampled("bicubic2d", "scales_h, scales_w"))(_resized("cubic", half_pixel=True))


@spelled(
    aten="pixel_shuffle(self, upscale_factor)",
    mindir="PixelShuffle(input as self, upscale_factor)",
)
def _shuffled(call: Call) -> None:
    call.emit(
        "DepthToSpace", [call.tensor("self")], blocksize=call.int("upscale_factor"), mode="CRD"
    )


@spelled(aten="pixel_unshuffle(self, downscale_factor)")
def _unshuffled(call: Call) -> None:
    """Blocks become channels, those of one channel together."""
    value, factor = call.tensor("self"), call.int("downscale_factor")
    if len(value.dims) != 4:
        raise UnsupportedError(call.target)
    n, c, h, w = value.dims
    apart = call.reshape(value, n, c, h // factor, factor, w // factor, factor)
    call.answer.reshape(call.transpose(apart, 0, 1, 3, 5, 2, 4), *call.result.dims)


@parametrised
def _blocks(call: Call, kind: str) -> None:
    check_channels_first(call)
    call.emit(kind, [call.tensor("self")], blocksize=call.int("block_size"))


spelled(mindir="DepthToSpace(x as self, block_size)")(_blocks("DepthToSpace"))
spelled(mindir="SpaceToDepth(x as self, block_size)")(_blocks("SpaceToDepth"))
