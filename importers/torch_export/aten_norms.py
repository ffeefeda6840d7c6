"""Normalisations and losses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.torch_export.aten_reductions import reduced
from importers.traced.call import Call, Converter, with_arguments
from ir.graph import Tensor


def _filled(call: Call, value: float, dims: tuple[int, ...], dtype: str) -> Tensor:
    """A constant that is one number throughout."""
    one = call.scalar(value, dtype)
    return call.step("Expand", [one, call.shape(dims)], dims) if dims else one


def _weight_or_ones(call: Call, name: str, dims: tuple[int, ...], dtype: str) -> Tensor:
    """A scale, ones where there is none."""
    return call.optional(name) or _filled(call, 1.0, dims, dtype)


def _layer_norm(call: Call) -> None:
    value = call.tensor("input")
    shape = call.ints("normalized_shape")
    scale = _weight_or_ones(call, "weight", shape, value.dtype)
    count = max((i + 1 for i in range(3) if call.wants(i)), default=1)
    call.emit(
        "LayerNormalization", [value, scale, call.optional("bias")], count=count,
        axis=-len(shape), epsilon=call.float("eps", 1e-5),
    )  # fmt: skip


_EPSILON: Mapping[str, float] = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7,
                                 "float64": 2.0**-52}  # fmt: skip


def _rms_norm(call: Call) -> None:
    value = call.tensor("input")
    shape = call.ints("normalized_shape")
    scale = _weight_or_ones(call, "weight", shape, value.dtype)
    epsilon = call.float("eps", _EPSILON.get(value.dtype, 2.0**-23))
    call.emit("RMSNormalization", [value, scale], count=1, axis=-len(shape), epsilon=epsilon)


def _batch_norm(call: Call) -> None:
    """With statistics of the batch while training, else with those that were kept."""
    value = call.tensor("input")
    channels = (value.dims[1],)
    operands = [
        value,
        _weight_or_ones(call, "weight", channels, value.dtype),
        call.optional("bias") or _filled(call, 0.0, channels, value.dtype),
        call.optional("running_mean") or _filled(call, 0.0, channels, value.dtype),
        _weight_or_ones(call, "running_var", channels, value.dtype),
    ]
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
        "BatchNormalization", operands, outputs, epsilon=epsilon, training_mode=int(training)
    )
    for index, kind in ((1, "mean"), (2, "var")):
        if call.wants(index):
            _batch_statistic(call, value, index, kind, epsilon)


def _batch_statistic(call: Call, value: Tensor, index: int, kind: str, epsilon: float) -> None:
    """What the backward pass is given: the mean, or one over the deviation."""
    result = call.results[index]
    if result is None or not result.dims or result.dims == (0,):
        return
    axes = [i for i in range(len(value.dims)) if i != 1]
    average = reduced(call, "ReduceMean", value, axes)
    if kind == "mean":
        found = average
    else:
        rest = call.step("Sub", [value, average])
        spread = reduced(call, "ReduceMean", call.step("Mul", [rest, rest]), axes)
        shifted = call.step("Add", [spread, call.scalar(epsilon, value.dtype)])
        found = call.step("Reciprocal", [call.step("Sqrt", [shifted])])
    call.alias(call.step("Reshape", [found, call.shape(result.dims)], result.dims), index)


def _with_scale(call: Call) -> list[Tensor]:
    """The operand with a scale and a shift of its channels."""
    value = call.tensor("input")
    channels = (value.dims[1],)
    return [
        value,
        _weight_or_ones(call, "weight", channels, value.dtype),
        call.optional("bias") or _filled(call, 0.0, channels, value.dtype),
    ]


def _group_norm(call: Call) -> None:
    operands = _with_scale(call)
    groups = call.int("group" if call.has("group") else "num_groups", 1)
    call.emit(
        "GroupNormalization", operands, count=1, num_groups=groups, epsilon=call.float("eps", 1e-5)
    )


def _instance_norm(call: Call) -> None:
    if not call.flag("use_input_stats", default=True):
        raise UnsupportedError(call.target)
    call.emit("InstanceNormalization", _with_scale(call), epsilon=call.float("eps", 1e-5))


@parametrised
def _cross_entropy(call: Call, kind: str) -> None:
    """Class numbers as targets; smoothing and soft targets have no equal."""
    value, target = call.tensor("self"), call.tensor("target")
    if call.float("label_smoothing", 0.0) or "int" not in target.dtype or len(value.dims) < 2:
        raise UnsupportedError(call.target)
    reduction = ("none", "mean", "sum")[call.int("reduction", 1)]
    call.emit(
        kind, [value, target, call.optional("weight")], count=1, reduction=reduction,
        ignore_index=call.int("ignore_index", -100),
    )  # fmt: skip


def counting(call: Call, target: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows of a loss count, and how many."""
    ignored = call.scalar(call.int("ignore_index", -100), target.dtype)
    left_out = call.step("Equal", [target, ignored], target.dims, "bool")
    counted = call.step("Not", [left_out])
    ones = call.cast(counted, "float32")
    axes = call.shape(range(len(target.dims)))
    return counted, call.step("ReduceSum", [ones, axes], (), keepdims=0)


def _likelihood(call: Call) -> None:
    """The loss, and for the backward pass the number of rows that count."""
    _cross_entropy("NegativeLogLikelihoodLoss")(call)
    if call.wants(1):
        if call.has("weight"):
            raise UnsupportedError(call.target)
        call.alias(counting(call, call.tensor("target"))[1], 1)


def _squared_error(call: Call) -> None:
    rest = call.step("Sub", [call.tensor("self"), call.tensor("target")])
    _mean_or_sum(call, call.step("Mul", [rest, rest]))


def _absolute_error(call: Call) -> None:
    rest = call.step("Sub", [call.tensor("self"), call.tensor("target")])
    _mean_or_sum(call, call.step("Abs", [rest]))


def _mean_or_sum(call: Call, value: Tensor) -> None:
    kind = ("", "ReduceMean", "ReduceSum")[call.int("reduction", 1)]
    if kind:
        call.emit(kind, [value, call.shape(range(len(value.dims)))], keepdims=0)
    else:
        call.alias(value)


NORMS: Mapping[str, Converter] = MappingProxyType(
    {
        "layer_norm(input, normalized_shape, weight, bias, eps, cudnn_enable)": _layer_norm,
        "native_layer_norm(input, normalized_shape, weight, bias, eps)": _layer_norm,
        "rms_norm(input, normalized_shape, weight, eps)": _rms_norm,
        "_fused_rms_norm(input, normalized_shape, weight, eps)": _rms_norm,
        "batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, "
        "cudnn_enabled)": _batch_norm,
        "native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, "
        "eps)": _batch_norm,
        "_native_batch_norm_legit(input, weight, bias, running_mean, running_var, training, "
        "momentum, eps)": _batch_norm,
        "_native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var, "
        "training, momentum, eps)": _batch_norm,
        "_native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps)":
            _batch_norm,
        "_native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, "
        "momentum, eps)": with_arguments(_batch_norm, training=False),
        "cudnn_batch_norm(input, weight, bias, running_mean, running_var, training, "
        "exponential_average_factor, epsilon)": _batch_norm,
        "group_norm(input, num_groups, weight, bias, eps, cudnn_enabled)": _group_norm,
        "native_group_norm(input, weight, bias, N, C, HxW, group, eps)": _group_norm,
        "instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, "
        "eps, cudnn_enabled)": _instance_norm,
        "cross_entropy_loss(self, target, weight, reduction, ignore_index, label_smoothing)":
            _cross_entropy("SoftmaxCrossEntropyLoss"),
        "nll_loss(self, target, weight, reduction, ignore_index)":
            _cross_entropy("NegativeLogLikelihoodLoss"),
        "nll_loss_nd(self, target, weight, reduction, ignore_index)":
            _cross_entropy("NegativeLogLikelihoodLoss"),
        "nll_loss_forward(self, target, weight, reduction, ignore_index)": _likelihood,
        "mse_loss(self, target, reduction)": _squared_error,
        "l1_loss(self, target, reduction)": _absolute_error,
    }
)  # fmt: skip
