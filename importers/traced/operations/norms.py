"""Normalisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call, Converter, with_arguments
from importers.traced.making import Making
from importers.traced.table import spelled
from ir.graph import Tensor

FIRST_LAYOUTS = frozenset({"NCHW", "NCDHW", 0, 3})
"""MindSpore's names and numbers of layouts with the channels in front of the space."""


def check_channels_first(call: Call) -> None:
    """Refuse a layout with the channels behind the space."""
    if call.get("data_format", call.get("format", "NCHW")) not in FIRST_LAYOUTS:
        raise UnsupportedError(call.target)


@parametrised
def alone(call: Call, convert: Converter) -> None:
    """The first result; the statistics that stand beside it have another meaning."""
    if any(call.is_read(i) for i in range(1, len(call.results))):
        raise UnsupportedError(call.target)
    convert(call)


def _throughout(call: Call, name: str, number: float, dims: tuple[int, ...], dtype: str) -> Tensor:
    """An operand, or one number throughout where there is none."""
    given = call.optional(name)
    if given is not None:
        return given
    one = call.scalar(number, dtype)
    return call.expand(one, *dims) if dims else one


@spelled(
    aten="layer_norm(input, normalized_shape, weight, bias, eps, cudnn_enable);"
    "native_layer_norm(input, normalized_shape, weight, bias, eps)"
)
def _layer_norm(call: Call) -> None:
    value = call.tensor("input")
    shape = call.ints("normalized_shape")
    scale = _throughout(call, "weight", 1.0, shape, value.dtype)
    count = max((i + 1 for i in range(3) if call.is_read(i)), default=1)
    call.emit(
        "LayerNormalization", [value, scale, call.optional("bias")], count=count,
        axis=-len(shape), epsilon=call.float("eps", 1e-5),
    )  # fmt: skip


spelled(mindir="LayerNormExt(input, normalized_shape, weight, bias, eps)")(alone(_layer_norm))


@spelled(
    mindir="LayerNorm(input_x as input, gamma as weight, beta as bias, begin_norm_axis,"
    "begin_params_axis, epsilon as eps)"
)
def _layer_norm_from(call: Call) -> None:
    """The statistics are of older networks' backward pass; nobody else reads them."""
    dims = call.tensor("input").dims
    axis = call.axis("begin_norm_axis", len(dims), 1)
    if call.axis("begin_params_axis", len(dims), 1) != axis or call.is_read(2):
        raise UnsupportedError(call.target)  # a variance, where ONNX has one over its root
    with_arguments(_layer_norm, normalized_shape=dims[axis:])(call)


_EPSILON: Mapping[str, float] = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7,
                                 "float64": 2.0**-52}  # fmt: skip


@spelled(aten="rms_norm _fused_rms_norm(input, normalized_shape, weight, eps)")
def _rms_norm(call: Call) -> None:
    value = call.tensor("input")
    shape = call.ints("normalized_shape")
    scale = _throughout(call, "weight", 1.0, shape, value.dtype)
    epsilon = call.float("eps", _EPSILON.get(value.dtype, 2.0**-23))
    call.answer.rms_norm(value, scale, axis=-len(shape), epsilon=epsilon)


@spelled(mindir="RmsNorm(x as self, gamma as weight, epsilon)")
def _rms_and_root(call: Call) -> None:
    """The norm, and one over the root that it divides by."""
    _rms(call, call.tensor("self"))


@spelled(mindir="AddRmsNorm(x1 as self, x2 as other, gamma as weight, epsilon)")
def _sum_and_norm(call: Call) -> None:
    """The norm of a sum, the root, and the sum."""
    total = call.add(call.tensor("self"), call.tensor("other"))
    _rms(call, total)
    call.alias(total, 2)


def _rms(call: Call, value: Tensor) -> None:
    scale, epsilon = call.tensor("weight"), call.float("epsilon", 1e-6)
    named = Making(call.result, partial(call.write, outputs=[call.result]), call.shape)
    call.made[0] = named.rms_norm(value, scale, axis=-len(scale.dims), epsilon=epsilon)
    if not call.is_read(1):
        return
    axes = range(len(value.dims) - len(scale.dims), len(value.dims))
    call.finish(_one_over_root(call, value, axes, epsilon), 1)


def _one_over_root(call: Call, value: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """One over the root of the mean square."""
    mean = call.reduce_mean(call.mul(value, value), *axes)
    return call.reciprocal(call.sqrt(call.add(mean, call.scalar(epsilon, value.dtype))))


_ALL = "input, weight, bias, running_mean, running_var, training"


@spelled(
    aten=f"batch_norm({_ALL}, momentum, eps, cudnn_enabled);"
    "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional"
    f"({_ALL}, momentum, eps);"
    "_native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps);"
    f"cudnn_batch_norm({_ALL}, exponential_average_factor, epsilon as eps)"
)
def _batch_norm(call: Call) -> None:
    """With statistics of the batch while training, else with those that were kept."""
    value = call.tensor("input")
    check_channels_first(call)
    channels = (value.dims[1],)
    numbers = (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0))
    vectors = [_throughout(call, n, number, channels, value.dtype) for n, number in numbers]
    epsilon = call.float("eps", 1e-5)
    first = call.results[0]
    if first is None:
        raise call.fault("nobody reads its result")
    call.made[0] = first
    outputs: list[Tensor | None] = [first]
    training = call.flag("training")
    if training:
        outputs += [
            call.writer.tensor(f"{call.name}/{s}", channels, value.dtype) for s in ("mean", "var")
        ]
    call.write(
        "BatchNormalization", [value, *vectors], outputs,
        epsilon=epsilon, training_mode=int(training),
    )  # fmt: skip
    for index, kind in ((1, "mean"), (2, "var")):
        if call.is_read(index):
            _batch_statistic(call, value, index, kind, epsilon)


spelled(
    aten="_native_batch_norm_legit_no_training"
    "(input, weight, bias, running_mean, running_var, momentum, eps)"
)(with_arguments(_batch_norm, training=False))
spelled(
    mindir="BatchNorm(input_x as input, scale as weight, bias, mean as running_mean,"
    "variance as running_var, is_training as training, epsilon as eps, momentum, data_format);"
    "BatchNormExt(input, weight, bias, running_mean, runnning_var as running_var,"
    "training, momentum, epsilon as eps)"
)(alone(_batch_norm))


def _batch_statistic(call: Call, value: Tensor, index: int, kind: str, epsilon: float) -> None:
    """What the backward pass is given: the mean, or one over the deviation."""
    result = call.results[index]
    if result is None or not result.dims or result.dims == (0,):
        return
    axes = [i for i in range(len(value.dims)) if i != 1]
    found = call.reduce_mean(value, *axes)
    if kind == "var":
        found = _one_over_root(call, call.sub(value, found), axes, epsilon)
    call.alias(call.reshape(found, *result.dims), index)


@parametrised
def by_channel(call: Call, kind: str) -> None:
    """With a scale and a shift of the channels, and kept groups where the call has them."""
    if not call.flag("use_input_stats", default=True):
        raise UnsupportedError(call.target)
    value = call.tensor("input")
    channels = (value.dims[1],)
    scale = _throughout(call, "weight", 1.0, channels, value.dtype)
    shift = _throughout(call, "bias", 0.0, channels, value.dtype)
    groups = {"num_groups": call.int("num_groups", 1)} if call.has("num_groups") else {}
    epsilon = call.float("eps", 1e-5)
    call.emit(kind, [value, scale, shift], count=1, **groups, epsilon=epsilon)
