"""Convolutions, pooling and resizing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call, Converter, with_arguments
from ir.graph import Tensor


def spread(values: Sequence[int], rank: int) -> list[int]:
    """One number for every dimension of the space."""
    return list(values) * rank if len(values) == 1 else list(values)


def _convolution(call: Call) -> None:
    """With the weight's space; `padding` may be a word."""
    value, weight = call.tensor("input"), call.tensor("weight")
    rank = len(weight.dims) - 2
    if len(value.dims) != rank + 2:
        raise UnsupportedError(call.target)
    stride, dilation = (spread(call.ints(n, (1,)), rank) for n in ("stride", "dilation"))
    pads = _pads(call, weight.dims[2:], dilation)
    kind = "ConvTranspose" if call.flag("transposed") else "Conv"
    attributes: dict[str, Any] = {
        "strides": stride, "dilations": dilation, "pads": pads, "kernel_shape": [*weight.dims[2:]]
    }  # fmt: skip
    if kind == "ConvTranspose":
        attributes["output_padding"] = spread(call.ints("output_padding", (0,)), rank)
    group = call.int("groups", 1)
    call.emit(kind, [value, weight, call.optional("bias")], group=group, **attributes)


def _pads(call: Call, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    word = call.get("padding", 0)
    rank = len(kernel)
    if word == "valid":
        return [0] * (2 * rank)
    if word == "same":
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return [*(t // 2 for t in total), *(t - t // 2 for t in total)]
    return spread(call.ints("padding", (0,)), rank) * 2


_transposed = with_arguments(_convolution, transposed=True)


@parametrised
def _pooled(call: Call, kind: str, rank: int) -> None:
    """Windows over the last dimensions; a tensor without a batch gets one."""
    value = call.tensor("self")
    kernel = spread(call.ints("kernel_size"), rank)
    stride = spread(call.ints("stride"), rank) or kernel
    attributes: dict[str, Any] = {
        "kernel_shape": kernel, "strides": stride,
        "pads": spread(call.ints("padding", (0,)), rank) * 2,
        "ceil_mode": int(call.flag("ceil_mode")),
    }  # fmt: skip
    if kind == "AveragePool":
        if call.has("divisor_override"):
            raise UnsupportedError(call.target)
        attributes["count_include_pad"] = int(call.flag("count_include_pad", default=True))
    else:
        attributes["dilations"] = spread(call.ints("dilation", (1,)), rank)
    if len(value.dims) != rank + 2 or call.wants(1):
        raise UnsupportedError(call.target)
    call.emit(kind, [value], count=1, **attributes)


@parametrised
def _adaptive(call: Call, kind: str, rank: int) -> None:
    """To one number: the whole space; to a divisor of its size: windows of equal size."""
    value = call.tensor("self")
    if len(value.dims) != rank + 2 or call.wants(1):
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


@parametrised
def _resized(call: Call, mode: str) -> None:
    """To the sizes that the tracer noted."""
    value: Tensor = call.tensor(next(iter(call.arguments)))
    aligned = call.flag("align_corners")
    place = "align_corners" if aligned else "half_pixel" if mode != "nearest" else "asymmetric"
    attributes: dict[str, Any] = {
        "mode": mode, "coordinate_transformation_mode": place,
    }  # fmt: skip
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
    if mode == "cubic":
        attributes["cubic_coeff_a"] = -0.75
    sizes = call.shape(call.result.dims)
    call.emit("Resize", [value, None, None, sizes], **attributes)


def _shuffled(call: Call) -> None:
    call.emit(
        "DepthToSpace", [call.tensor("self")], blocksize=call.int("upscale_factor"), mode="CRD"
    )


def _unshuffled(call: Call) -> None:
    """Blocks become channels, those of one channel together."""
    value, factor = call.tensor("self"), call.int("downscale_factor")
    if len(value.dims) != 4:
        raise UnsupportedError(call.target)
    n, c, h, w = value.dims
    apart = (n, c, h // factor, factor, w // factor, factor)
    split = call.step("Reshape", [value, call.shape(apart)], apart)
    perm = (0, 1, 3, 5, 2, 4)
    moved = call.step("Transpose", [split], tuple(apart[p] for p in perm), perm=perm)
    call.emit("Reshape", [moved, call.shape(call.result.dims)])


def _upsampled(name: str, scales: str, mode: str, *, aligned: bool = True) -> dict[str, Converter]:
    """Both overloads of an operator: with scales one by one, and as a list."""
    corners = ", align_corners" if aligned else ""
    return {
        f"upsample_{name}(self, output_size{corners}, {scales})": _resized(mode),
        f"upsample_{name}.vec(input, output_size{corners}, scale_factors)": _resized(mode),
    }


_CONVOLUTION = "input, weight, bias, stride, padding"

IMAGES: Mapping[str, Converter] = MappingProxyType(
    {
        f"convolution({_CONVOLUTION}, dilation, transposed, output_padding, groups)": _convolution,
        f"_convolution({_CONVOLUTION}, dilation, transposed, output_padding, groups)": _convolution,
        f"conv1d.{{default,padding}}({_CONVOLUTION}, dilation, groups)": _convolution,
        f"conv2d.{{default,padding}}({_CONVOLUTION}, dilation, groups)": _convolution,
        f"conv3d.{{default,padding}}({_CONVOLUTION}, dilation, groups)": _convolution,
        f"conv_transpose1d({_CONVOLUTION}, output_padding, groups, dilation)": _transposed,
        f"conv_transpose2d.input({_CONVOLUTION}, output_padding, groups, dilation)": _transposed,
        f"conv_transpose3d.input({_CONVOLUTION}, output_padding, groups, dilation)": _transposed,
        "max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode)":
            _pooled("MaxPool", 1),
        "max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode)":
            _pooled("MaxPool", 2),
        "max_pool3d(self, kernel_size, stride, padding, dilation, ceil_mode)":
            _pooled("MaxPool", 3),
        "max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)":
            _pooled("MaxPool", 2),
        "avg_pool1d(self, kernel_size, stride, padding, ceil_mode, count_include_pad)":
            _pooled("AveragePool", 1),
        "avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, "
        "divisor_override)": _pooled("AveragePool", 2),
        "avg_pool3d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, "
        "divisor_override)": _pooled("AveragePool", 3),
        "adaptive_avg_pool1d(self, output_size)": _adaptive("AveragePool", 1),
        "adaptive_avg_pool2d(self, output_size)": _adaptive("AveragePool", 2),
        "_adaptive_avg_pool2d(self, output_size)": _adaptive("AveragePool", 2),
        "adaptive_avg_pool3d(self, output_size)": _adaptive("AveragePool", 3),
        "adaptive_max_pool2d(self, output_size)": _adaptive("MaxPool", 2),
        **_upsampled("nearest1d", "scales", "nearest", aligned=False),
        **_upsampled("nearest2d", "scales_h, scales_w", "nearest", aligned=False),
        **_upsampled("nearest3d", "scales_d, scales_h, scales_w", "nearest", aligned=False),
        **_upsampled("linear1d", "scales", "linear"),
        **_upsampled("bilinear2d", "scales_h, scales_w", "linear"),
        **_upsampled("trilinear3d", "scales_d, scales_h, scales_w", "linear"),
        **_upsampled("bicubic2d", "scales_h, scales_w", "cubic"),
        "pixel_shuffle(self, upscale_factor)": _shuffled,
        "pixel_unshuffle(self, downscale_factor)": _unshuffled,
    }
)  # fmt: skip
