"""Backward operators of a joint graph, in the operators that they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from importers.errors import UnsupportedError
from importers.traced.call import Call, with_arguments
from importers.traced.formulas import formula
from importers.traced.operations.images import spread
from importers.traced.operations.losses import counting
from importers.traced.operations.norms import check_channels_first
from importers.traced.table import spelled
from ir.graph import Tensor


@spelled(
    aten="_softmax_backward_data(grad_output, output, dim, input_dtype)",
    mindir="SoftmaxBackward(dout as grad_output, out as output, dim)",
)
def _softmax(call: Call) -> None:
    """`(g - sum(g * y)) * y`."""
    gradient, made = call.tensor("grad_output"), call.tensor("output")
    axis = call.axis("dim", len(made.dims))
    weighted = call.mul(gradient, made)
    call.answer.sub(weighted, call.mul(made, call.reduce_sum(weighted, axis)))


@spelled(
    aten="_log_softmax_backward_data(grad_output, output, dim, input_dtype)",
    mindir="LogSoftmaxGrad(logits as output, grad as grad_output, axis as dim)",
)
def _log_softmax(call: Call) -> None:
    """`g - exp(y) * sum(g)`."""
    gradient, made = call.tensor("grad_output"), call.tensor("output")
    axis = call.axis("dim", len(made.dims))
    total = call.reduce_sum(gradient, axis)
    call.answer.sub(gradient, call.mul(call.pointwise("Exp", made), total))


spelled(
    aten="tanh_backward(grad_output, output)",
    mindir="TanhGrad(y as output, dy as grad_output)",
)(formula("grad_output * (1.0 - output * output)"))


spelled(
    aten="sigmoid_backward(grad_output, output)",
    mindir="SigmoidGrad(y as output, dy as grad_output)",
)(formula("grad_output * (output * (1.0 - output))"))


spelled(
    aten="threshold_backward(grad_output, self, threshold)",
    mindir="ReluGrad(y_backprop as grad_output, x as self)",
)(formula("Where(self > threshold, grad_output, 0.0)", threshold=0.0))


spelled(
    aten="silu_backward(grad_output, self)",
    mindir="SiLUGrad(dout as grad_output, x as self)",
)(formula("gate = Sigmoid(self); grad_output * (gate * (self * (1.0 - gate) + 1.0))"))


_ROOT = math.sqrt(2 / math.pi)
_BY_ERROR = formula(
    f"below = (Erf(self * {math.sqrt(0.5)}) + 1.0) * 0.5;"
    f"density = Exp(self * self * -0.5) * {1 / math.sqrt(2 * math.pi)};"
    "grad_output * (below + self * density)"
)
_BY_TANGENT = formula(
    "square = self * self;"
    f"arc = Tanh(self * (square * 0.044715 + 1.0) * {_ROOT});"
    "half = (arc + 1.0) * 0.5;"
    f"steep = (1.0 - arc * arc) * (square * {3 * 0.044715} + 1.0) * {0.5 * _ROOT};"
    "grad_output * (half + self * steep)"
)
spelled(mindir="GeLUGrad(dy as grad_output, x as self, y as output)")(_BY_TANGENT)


@spelled(aten="gelu_backward(grad_output, self, approximate)")
def _gelu(call: Call) -> None:
    """By the normal distribution, or by its approximation."""
    exact = call.text("approximate", "none") != "tanh"
    (_BY_ERROR if exact else _BY_TANGENT)(call)


@spelled(
    aten="native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,"
    "output_mask)"
)
def _layer_norm(call: Call) -> None:
    rank, inner = len(call.tensor("input").dims), len(call.ints("normalized_shape"))
    _norm(call, list(range(rank - inner, rank)), list(range(rank - inner)), call.tensor)


@spelled(
    aten="native_batch_norm_backward(grad_out, input, weight, running_mean, running_var,"
    "save_mean as mean, save_invstd as rstd, train, eps, output_mask)"
)
def _batch_norm(call: Call) -> None:
    """As a layer normalisation, over all but the channels, with statistics of the batch."""
    dims = call.tensor("input").dims
    if not call.flag("train", default=True):
        raise UnsupportedError(call.target)
    axes = [i for i in range(len(dims)) if i != 1]
    row = (1, dims[1], *[1] * (len(dims) - 2))
    _norm(call, axes, axes, lambda name: call.reshape(call.tensor(name), *row))


def _norm(call: Call, inner: list[int], outer: list[int], vector: Callable[[str], Tensor]) -> None:
    """With `u = (x - mean) * rstd` and `h = g * w`, of the operand
    `(h - mean(h) - u * mean(h * u)) * rstd`, of the weight `sum(g * u)`, of the bias `sum(g)`.

    Args:
        call: the backward operator.
        inner: dimensions over which the statistics are.
        outer: the others, or all but the channels.
        vector: gives a statistic or the weight, to be multiplied with the operand.
    """
    gradient, value = call.tensor("grad_out"), call.tensor("input")
    rstd = vector("rstd")
    unit = call.mul(call.sub(value, vector("mean")), rstd)
    if call.is_read(0):
        scaled = call.mul(gradient, vector("weight")) if call.has("weight") else gradient
        call.alias(call.mul(_centred(call, scaled, unit, inner), rstd))
    if call.is_read(1):
        call.alias(call.reduce_sum(call.mul(gradient, unit), *outer, keep=False), 1)
    if call.is_read(2):
        call.alias(call.reduce_sum(gradient, *outer, keep=False), 2)


def _centred(call: Call, value: Tensor, unit: Tensor, axes: list[int]) -> Tensor:
    """`h - mean(h) - u * mean(h * u)`."""
    first = call.reduce_mean(value, *axes)
    second = call.reduce_mean(call.mul(value, unit), *axes)
    return call.sub(call.sub(value, first), call.mul(unit, second))


@spelled(
    aten="embedding_dense_backward(grad_output, indices, num_weights, padding_idx,"
    "scale_grad_by_freq)",
)
def _embedding(call: Call) -> None:
    """Rows of the gradient added up by index."""
    gradient, index = call.tensor("grad_output"), call.tensor("indices")
    zeros = call.expand(call.scalar(0.0, gradient.dtype), *call.result.dims)
    places = call.unsqueeze(index, len(index.dims))
    call.answer.scatter_nd(zeros, places, gradient, "add")


@spelled(
    aten="convolution_backward(grad_output, input, weight, bias_sizes, stride, padding,"
    "dilation, transposed, output_padding, groups, output_mask)",
)
def _convolution(call: Call) -> None:
    """Of the operand the transposed convolution; of the weight a convolution of the operand with
    the gradient, batch and channels exchanged; of the bias a sum.
    """
    gradient, value = call.tensor("grad_output"), call.tensor("input")
    weight, groups = call.tensor("weight"), call.int("groups", 1)
    rank = len(weight.dims) - 2
    stride, padding, dilation = (
        spread(call.ints(n, d), rank)
        for n, d in (("stride", (1,)), ("padding", (0,)), ("dilation", (1,)))
    )
    if call.flag("transposed"):
        raise UnsupportedError(call.target)
    if call.is_read(0):
        shape: dict[str, Any] = {
            "strides": stride, "pads": padding * 2, "dilations": dilation,
            "kernel_shape": list(weight.dims[2:]),
        }  # fmt: skip
        short = [
            size - ((g - 1) * s - 2 * p + d * (k - 1) + 1)
            for size, g, s, p, d, k in zip(
                value.dims[2:], gradient.dims[2:], stride, padding, dilation, weight.dims[2:],
                strict=True,
            )
        ]  # fmt: skip
        back = call.op(
            "ConvTranspose", [gradient, weight], value.dims, group=groups, output_padding=short,
            **shape,
        )  # fmt: skip
        call.alias(back)
    if call.is_read(1):
        if groups != 1:
            raise UnsupportedError(call.target)
        call.alias(_weight_gradient(call, (gradient, value, weight), stride, padding, dilation), 1)
    if call.is_read(2):
        axes = [i for i in range(len(gradient.dims)) if i != 1]
        call.alias(call.reduce_sum(gradient, *axes, keep=False), 2)


def _weight_gradient(
    call: Call,
    tensors: tuple[Tensor, Tensor, Tensor],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> Tensor:
    gradient, value, weight = (_exchanged(call, t) for t in tensors)
    space = [
        (size + 2 * p - s * (g - 1) - 1) // d + 1
        for size, g, s, p, d in zip(
            value.dims[2:], gradient.dims[2:], stride, padding, dilation, strict=True
        )
    ]
    made = call.op(
        "Conv", [value, gradient], (*weight.dims[:2], *space), strides=dilation,
        dilations=stride, pads=padding * 2, kernel_shape=list(gradient.dims[2:]), group=1,
    )  # fmt: skip
    if tuple(space) != weight.dims[2:]:
        axes = range(2, len(space) + 2)
        made = call.slices(made, [0] * len(axes), weight.dims[2:], axes)
    return _exchanged(call, made)


def _exchanged(call: Call, value: Tensor) -> Tensor:
    """Batch and channels changed."""
    return call.transpose(value, 1, 0, *range(2, len(value.dims)))


@spelled(
    aten="linear_backward(self, grad_output, weight, output_mask)",
)
def _linear(call: Call) -> None:
    """`linear_backward`: of the operand, the weight and the bias."""
    value, gradient, weight = (call.tensor(n) for n in ("self", "grad_output", "weight"))
    rows = (math.prod(value.dims[:-1]), value.dims[-1])
    flat = (math.prod(gradient.dims[:-1]), gradient.dims[-1])
    if call.is_read(0):
        call.alias(call.matmul(gradient, weight))
    if call.is_read(1):
        left, right = call.reshape(gradient, *flat), call.reshape(value, *rows)
        call.alias(call.matmul(call.flipped(left), right), 1)
    if call.is_read(2):
        call.alias(call.reduce_sum(gradient, *range(len(gradient.dims) - 1), keep=False), 2)


@spelled(
    aten="nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index,"
    "total_weight)",
)
def _likelihood(call: Call) -> None:
    """`-g` at the class of each row that counts, over their number for a mean."""
    value, target = call.tensor("self"), call.tensor("target")
    each, reduction = call.tensor("grad_output"), call.int("reduction", 1)
    if len(value.dims) != 2 or call.has("weight") or reduction == 0:
        raise UnsupportedError(call.target)
    counted, rows = counting(call, target)
    if reduction == 1:
        each = call.div(each, rows)
    each = call.neg(each)
    zero = call.scalar(0.0, value.dtype)
    share = call.select(counted, each, zero)
    safe = call.select(counted, target, call.scalar(0, target.dtype))
    places, updates = (call.unsqueeze(t, 1) for t in (safe, share))
    zeros = call.expand(zero, *value.dims)
    call.answer.scatter_elements(zeros, places, updates, 1, "add")


@spelled(
    aten="mse_loss_backward(grad_output, self, target, reduction)",
)
def _squared_error(call: Call) -> None:
    """`2 * g * (x - y)`, over their number for a mean."""
    value, target = call.tensor("self"), call.tensor("target")
    share = 2.0 / math.prod(value.dims) if call.int("reduction", 1) == 1 else 2.0
    rest = call.sub(value, target)
    scaled = call.mul(rest, call.scalar(share, value.dtype))
    call.answer.mul(scaled, call.tensor("grad_output"))


spelled(
    aten="leaky_relu_backward(grad_output, self, negative_slope, self_is_result)",
)(formula("Where(self > 0.0, grad_output, grad_output * negative_slope)", negative_slope=0.01))


@spelled(
    aten="native_dropout_backward(grad_output, mask, scale)",
)
def _dropout(call: Call) -> None:
    """`g` where nothing was dropped, scaled as the result was."""
    gradient = call.tensor("grad_output")
    mask = call.cast(call.tensor("mask"), gradient.dtype)
    scale = call.scalar(call.float("scale", 1.0), gradient.dtype)
    call.answer.mul(gradient, call.mul(mask, scale))


@spelled(
    aten="sum_to_size(self, size)",
)
def _sum_to(call: Call) -> None:
    """`sum_to_size`: back to dims that were stretched."""
    value, dims = call.tensor("self"), call.result.dims
    lead = len(value.dims) - len(dims)
    axes = [i for i, d in enumerate(value.dims) if i < lead or d != dims[i - lead]]
    if not axes:
        call.alias(value)
        return
    call.answer.reshape(call.reduce_sum(value, *axes), *dims)


@spelled(mindir="BiasAddGrad(dout as grad_output, data_format)")
def _bias(call: Call) -> None:
    """The sum over all but the channels."""
    value = call.tensor("grad_output")
    check_channels_first(call)
    axes = [axis for axis in range(len(value.dims)) if axis != 1]
    call.answer.reduce_sum(value, *axes, keep=False)


spelled(mindir="SoftmaxGrad(y as output, dy as grad_output)")(with_arguments(_softmax, dim=-1))
