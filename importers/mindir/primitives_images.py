"""Convolutions, pooling and resizing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.torch_export.aten import aten
from importers.traced.call import Call, Converter

_PAD_MODES: Mapping[object, str] = {0: "pad", 1: "same", 2: "valid"}
"""`PadMode` of MindSpore."""
_CHANNELS_FIRST = frozenset({"NCHW", "NCDHW", 0, 3})


def _space(values: Sequence[int], rank: int) -> list[int]:
    """Numbers of the space: attributes may have one, or one for the batch and channels too."""
    if len(values) == 1:
        return list(values) * rank
    return list(values)[-rank:]


def _mode(call: Call) -> str:
    word = call.get("pad_mode", "valid")
    return _PAD_MODES.get(word, str(word).lower())


def _check_format(call: Call) -> None:
    form = call.get("data_format", call.get("format", "NCHW"))
    if form not in _CHANNELS_FIRST:
        raise UnsupportedError(call.target)


def _same(into: int, out: int, window: int, stride: int) -> tuple[int, int]:
    """What is put in front and behind so that every stride begins a window."""
    total = max((out - 1) * stride + window - into, 0)
    return total // 2, total - total // 2


def _pads(
    call: Call, space: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> list[int]:
    """For each dimension of the space in front, then behind."""
    rank, mode = len(space), _mode(call)
    if mode == "same":
        out = call.result.dims[2:]
        pairs = [_same(*each) for each in zip(space, out, windows, strides, strict=True)]
        return [p[0] for p in pairs] + [p[1] for p in pairs]
    if mode != "pad":
        return [0] * (2 * rank)
    pad = call.ints("pad", (0,))
    if len(pad) == 1:
        return list(pad) * (2 * rank)
    if len(pad) != 2 * rank:
        raise call.fault(f"it has {len(pad)} pads for {rank} dimensions")
    return [*pad[::2], *pad[1::2]]


def _convolution(call: Call) -> None:
    value, weight = call.tensor("self"), call.tensor("weight")
    _check_format(call)
    rank = len(weight.dims) - 2
    stride, dilation = (_space(call.ints(n, (1,)), rank) for n in ("stride", "dilation"))
    kernel = list(weight.dims[2:])
    windows = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    call.emit(
        "Conv", [value, weight], group=call.int("group", 1), strides=stride, dilations=dilation,
        pads=_pads(call, value.dims[2:], windows, stride), kernel_shape=kernel,
    )  # fmt: skip


def _transposed(call: Call) -> None:
    """The result's size is an operand: what is missing is added behind."""
    value, weight = call.tensor("self"), call.tensor("weight")
    _check_format(call)
    rank = len(weight.dims) - 2
    stride, dilation = (_space(call.ints(n, (1,)), rank) for n in ("stride", "dilation"))
    kernel, out = list(weight.dims[2:]), call.result.dims[2:]
    windows = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    spans = [(n - 1) * s + w for n, s, w in zip(value.dims[2:], stride, windows, strict=True)]
    mode = _mode(call)
    if mode == "pad":
        pads = _pads(call, value.dims[2:], windows, stride)
    else:
        over = [max(s - o, 0) for s, o in zip(spans, out, strict=True)]
        pads = [*(o // 2 for o in over), *(o - o // 2 for o in over)]
    left = [
        o - s + pads[i] + pads[i + rank] for i, (o, s) in enumerate(zip(out, spans, strict=True))
    ]
    call.emit(
        "ConvTranspose", [value, weight], group=call.int("group", 1), strides=stride,
        dilations=dilation, pads=pads, kernel_shape=kernel, output_padding=left,
    )  # fmt: skip


@parametrised
def _pooled(call: Call, kind: str) -> None:
    value = call.tensor("self")
    _check_format(call)
    if call.get("divisor_override"):
        raise UnsupportedError(call.target)
    rank = len(value.dims) - 2
    kernel, stride = (_space(call.ints(n, (1,)), rank) for n in ("kernel_size", "strides"))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel, "strides": stride,
        "pads": _pads(call, value.dims[2:], kernel, stride),
    }  # fmt: skip
    if call.get("ceil_mode"):
        attributes["ceil_mode"] = 1
    if kind == "AveragePool":
        attributes["count_include_pad"] = int(call.flag("count_include_pad"))
    call.emit(kind, [value], count=1, **attributes)


def _pooled_with_places(call: Call) -> None:
    """The largest of each window; where it was is for the backward pass."""
    value = call.tensor("self")
    rank = len(value.dims) - 2
    if call.wants(1):
        raise UnsupportedError(call.target)
    kernel = _space(call.ints("kernel_size"), rank)
    stride, pads, dilation = (
        _space(call.ints(n, d) or d, rank)
        for n, d in (("strides", tuple(kernel)), ("pads", (0,)), ("dilation", (1,)))
    )
    call.emit(
        "MaxPool", [value], count=1, kernel_shape=kernel, strides=stride, pads=pads * 2,
        dilations=dilation, ceil_mode=int(call.flag("ceil_mode")),
    )  # fmt: skip


@parametrised
def _resized(call: Call, mode: str) -> None:
    """To the sizes that the file notes."""
    place = "half_pixel" if call.flag("half_pixel_centers") else "asymmetric"
    if call.flag("align_corners"):
        place = "align_corners"
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": place}
    if mode == "nearest":
        attributes["nearest_mode"] = "round_prefer_ceil" if place == "align_corners" else "floor"
    sizes = call.shape(call.result.dims)
    call.emit("Resize", [call.tensor("self"), None, None, sizes], **attributes)


def _sampled(call: Call) -> None:
    modes: Mapping[object, str] = {
        0: "linear", 1: "nearest", "bilinear": "linear", "nearest": "nearest"
    }  # fmt: skip
    paddings: Mapping[object, str] = {0: "zeros", 1: "border", 2: "reflection"}
    mode, word = modes.get(call.get("interpolation_mode", 0)), call.get("padding_mode", 0)
    if mode is None:
        raise UnsupportedError(call.target)
    call.emit(
        "GridSample", [call.tensor("self"), call.tensor("grid")],
        mode=mode, padding_mode=paddings.get(word, str(word)),
        align_corners=int(call.flag("align_corners")),
    )  # fmt: skip


def _regions(call: Call) -> None:
    """The number of its image stands before the corners of each region."""
    value, regions = call.tensor("self"), call.tensor("rois")
    count = regions.dims[0]
    number, corners = (
        call.step("Slice", [regions, *(call.shape([n]) for n in (a, b, 1))], (count, b - a))
        for a, b in ((0, 1), (1, 5))
    )
    if call.flag("roi_end_mode", default=True):  # the last pixel counts
        ends = call.writer.constant([0, 0, 1, 1], regions.dtype)
        corners = call.step("Add", [corners, ends])
    images = call.cast(call.step("Squeeze", [number, call.shape([1])], (count,)), "int64")
    call.emit(
        "RoiAlign", [value, corners, images], output_height=call.int("pooled_height"),
        output_width=call.int("pooled_width"), spatial_scale=call.float("spatial_scale", 1.0),
        sampling_ratio=call.int("sample_num", 2),
        coordinate_transformation_mode="output_half_pixel",
    )  # fmt: skip


@parametrised
def _blocks(call: Call, kind: str) -> None:
    _check_format(call)
    call.emit(kind, [call.tensor("self")], blocksize=call.int("block_size"))


_WINDOW = "kernel_size, strides, pad_mode, data_format"
_SHARED = "out_channel, kernel_size, mode, pad_mode, pad, stride, dilation, group, data_format"

IMAGES: Mapping[str, Converter] = MappingProxyType(
    {
        f"Conv2D(x as self, w as weight, {_SHARED})": _convolution,
        f"Conv3D(x as self, w as weight, {_SHARED})": _convolution,
        "Conv2DTranspose(out_backprop as self, filter as weight, input_sizes)": _transposed,
        "Conv2DBackpropInput(out_backprop as self, filter as weight, input_sizes)": _transposed,
        "Conv2DExt(input, weight, bias, stride, padding, dilation, groups)": aten("conv2d"),
        "Conv2DPadding(input, weight, bias, stride, padding, dilation, groups)":
            aten("conv2d.padding"),
        "Convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, "
        "groups)": aten("convolution"),
        f"MaxPool(x as self, {_WINDOW})": _pooled("MaxPool"),
        f"AvgPool(x as self, {_WINDOW})": _pooled("AveragePool"),
        "MaxPool3D(x as self, kernel_size, strides, pad_mode, pad_list as pad, ceil_mode, "
        "data_format)": _pooled("MaxPool"),
        "AvgPool3D(input as self, kernel_size, strides, pad_mode, pad, ceil_mode, "
        "count_include_pad, divisor_override, data_format)": _pooled("AveragePool"),
        "MaxPool3DWithArgmax(x as self, ksize as kernel_size, strides, pads, dilation, ceil_mode)":
            _pooled_with_places,
        "AvgPool2D(input as self, kernel_size, stride, padding, ceil_mode, count_include_pad, "
        "divisor_override)": aten("avg_pool2d"),
        "MaxPoolWithMask(x as self, kernel_size, strides, pads, dilation, ceil_mode, argmax_type)":
            _pooled_with_places,
        "MaxPoolWithIndices(x as self, kernel_size, strides, pads, dilation, ceil_mode, "
        "argmax_type)": _pooled_with_places,
        "AdaptiveAvgPool2D(x as self, output_size)": aten("adaptive_avg_pool2d"),
        "AdaptiveAvgPool2DExt(input as self, output_size)": aten("adaptive_avg_pool2d"),
        "ResizeBilinearV2(image as self, size, align_corners, half_pixel_centers)":
            _resized("linear"),
        "ResizeNearestNeighbor(input_x as self, size, align_corners, half_pixel_centers)":
            _resized("nearest"),
        "ResizeNearestNeighborV2(image as self, size, align_corners, half_pixel_centers)":
            _resized("nearest"),
        "UpsampleNearest2D(x as self, output_size, scales)": aten("upsample_nearest2d.vec"),
        "UpsampleBilinear2D(x as self, output_size, scales, align_corners)":
            aten("upsample_bilinear2d.vec"),
        "GridSampler2D(input_x as self, grid, interpolation_mode, padding_mode, align_corners)":
            _sampled,
        "ROIAlign(features as self, rois, pooled_height, pooled_width, spatial_scale, sample_num, "
        "roi_end_mode)": _regions,
        "PixelShuffle(input as self, upscale_factor)": aten("pixel_shuffle"),
        "DepthToSpace(x as self, block_size)": _blocks("DepthToSpace"),
        "SpaceToDepth(x as self, block_size)": _blocks("SpaceToDepth"),
    }
)  # fmt: skip
