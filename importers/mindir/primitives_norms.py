"""Normalisations and losses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.torch_export.aten import aten
from importers.torch_export.aten_reductions import reduced
from importers.traced.call import Call, Converter
from ir.graph import Tensor

_REDUCTIONS: Mapping[object, str] = {0: "sum", 1: "mean", 2: "none", "sum": "sum", "mean": "mean",
                                     "none": "none"}  # fmt: skip
"""`Reduction` of MindSpore."""


def _layer_norm(call: Call) -> None:
    """The statistics are of older networks' backward pass; nobody else reads them."""
    value, scale = call.tensor("self"), call.tensor("weight")
    axis = call.axis("begin_norm_axis", len(value.dims), 1)
    if call.axis("begin_params_axis", len(value.dims), 1) != axis:
        raise UnsupportedError(call.target)
    count = max(i + 1 for i in range(3) if i == 0 or call.wants(i))
    if call.wants(2):
        raise UnsupportedError(call.target)  # a variance, where ONNX has one over its root
    call.emit(
        "LayerNormalization", [value, scale, call.tensor("bias")], count=count,
        axis=axis - len(value.dims), epsilon=call.float("epsilon", 1e-7),
    )  # fmt: skip


def _layer_norm_ext(call: Call) -> None:
    if call.wants(1) or call.wants(2):
        raise UnsupportedError(call.target)
    aten("layer_norm")(call)


def _rms_norm(call: Call) -> None:
    """The norm, and one over the root that it divides by."""
    value, scale = call.tensor("self"), call.tensor("weight")
    _emit_rms(call, value, scale, 0)
    _root(call, value, scale, 1)


def _root(call: Call, value: Tensor, scale: Tensor, index: int) -> None:
    """What the backward pass reads."""
    if not call.wants(index):
        return
    axes = range(len(value.dims) - len(scale.dims), len(value.dims))
    mean = reduced(call, "ReduceMean", call.step("Mul", [value, value]), list(axes))
    shifted = call.step("Add", [mean, call.scalar(call.float("epsilon", 1e-6), value.dtype)])
    call.finish(call.step("Reciprocal", [call.step("Sqrt", [shifted])]), index)


def _emit_rms(call: Call, value: Tensor, scale: Tensor, index: int) -> None:
    result = call.results[index]
    if result is None:
        raise call.fault("it makes no tensor")
    call.made[index] = result
    epsilon = call.float("epsilon", 1e-6)
    call.write("RMSNormalization", [value, scale], [result], axis=-len(scale.dims), epsilon=epsilon)


def _sum_and_norm(call: Call) -> None:
    """`AddRmsNorm`: the norm of a sum, and the sum."""
    total = call.step("Add", [call.tensor("self"), call.tensor("other")])
    _emit_rms(call, total, call.tensor("weight"), 0)
    _root(call, total, call.tensor("weight"), 1)
    call.alias(total, 2)


def _batch_norm(call: Call) -> None:
    """With stored statistics, or with those of the batch while it trains."""
    value, training = call.tensor("self"), call.flag("is_training")
    if call.get("data_format", "NCHW") not in {"NCHW", "NCDHW", 0, 3}:
        raise UnsupportedError(call.target)
    if any(call.wants(i) for i in range(1, len(call.results))):
        raise UnsupportedError(call.target)
    names = ("weight", "bias", "running_mean", "running_var")
    outputs: list[Tensor | None] = [call.result]
    if training:
        outputs += [
            call.writer.tensor(f"{call.name}/{s}", (value.dims[1],), value.dtype)
            for s in ("mean", "var")
        ]
    call.made[0] = call.result
    call.write(
        "BatchNormalization", [value, *(call.tensor(n) for n in names)], outputs,
        epsilon=call.float("epsilon", 1e-5), training_mode=int(training),
    )  # fmt: skip


def _group_norm(call: Call) -> None:
    if call.wants(1) or call.wants(2):
        raise UnsupportedError(call.target)
    aten("group_norm")(call)


def _instance_norm(call: Call) -> None:
    if call.wants(1) or call.wants(2):
        raise UnsupportedError(call.target)
    operands = [call.tensor(n) for n in ("self", "weight", "bias")]
    call.emit("InstanceNormalization", operands, count=1, epsilon=call.float("epsilon", 1e-5))


@parametrised
def _likelihood(call: Call, kind: str) -> None:
    """Of class numbers."""
    reduction = _REDUCTIONS.get(call.get("reduction", "mean"))
    if reduction is None or call.float("label_smoothing", 0.0) or call.wants(1):
        raise UnsupportedError(call.target)
    target = call.tensor("target")
    call.emit(
        kind, [call.tensor("self"), target, call.optional("weight")], count=1,
        reduction=reduction, ignore_index=call.int("ignore_index", -100),
    )  # fmt: skip


def _sparse_entropy(call: Call) -> None:
    """The mean over the rows; its gradient is another primitive's result."""
    if call.flag("is_grad"):
        raise UnsupportedError(call.target)
    call.emit(
        "SoftmaxCrossEntropyLoss", [call.tensor("self"), call.tensor("target")], count=1,
        reduction="mean",
    )  # fmt: skip


def _soft_entropy(call: Call) -> None:
    """`-sum(labels * log_softmax(logits))` for each row."""
    if call.wants(1):
        raise UnsupportedError(call.target)
    value, labels = call.tensor("self"), call.tensor("target")
    logs = call.step("LogSoftmax", [value], axis=len(value.dims) - 1)
    weighted = call.step("Mul", [logs, labels])
    axes = call.shape([len(value.dims) - 1])
    total = call.step("ReduceSum", [weighted, axes], value.dims[:-1], keepdims=0)
    call.emit("Neg", [total], count=1)


def _squared_error(call: Call) -> None:
    reduction = _REDUCTIONS.get(call.get("reduction", "mean"), "")
    if not reduction:
        raise UnsupportedError(call.target)
    call.arguments = {**call.arguments, "reduction": ("none", "mean", "sum").index(reduction)}
    aten("mse_loss")(call)


NORMS: Mapping[str, Converter] = MappingProxyType(
    {
        "LayerNorm(input_x as self, gamma as weight, beta as bias, begin_norm_axis, "
        "begin_params_axis, epsilon)": _layer_norm,
        "LayerNormExt(input, normalized_shape, weight, bias, eps)": _layer_norm_ext,
        "RmsNorm(x as self, gamma as weight, epsilon)": _rms_norm,
        "AddRmsNorm(x1 as self, x2 as other, gamma as weight, epsilon)": _sum_and_norm,
        "BatchNorm(input_x as self, scale as weight, bias, mean as running_mean, "
        "variance as running_var, is_training, epsilon, momentum, data_format)": _batch_norm,
        "BatchNormExt(input as self, weight, bias, running_mean, runnning_var as running_var, "
        "training as is_training, momentum, epsilon)": _batch_norm,
        "GroupNorm(input, num_groups, weight, bias, eps)": _group_norm,
        "InstanceNorm(x as self, gamma as weight, beta as bias, mean, variance, epsilon, momentum)":
            _instance_norm,
        "NLLLoss(logits as self, labels as target, weight, reduction, ignore_index)":
            _likelihood("NegativeLogLikelihoodLoss"),
        "CrossEntropyLoss(input as self, target, weight, reduction, ignore_index, "
        "label_smoothing, lse_square_scale_for_zloss, return_zloss)":
            _likelihood("SoftmaxCrossEntropyLoss"),
        "SparseSoftmaxCrossEntropyWithLogits(features as self, labels as target, is_grad)":
            _sparse_entropy,
        "SoftmaxCrossEntropyWithLogits(logits as self, labels as target)": _soft_entropy,
        "MSELossExt(input as self, target, reduction)": _squared_error,
    }
)  # fmt: skip
