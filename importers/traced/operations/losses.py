"""Losses."""

from __future__ import annotations

from collections.abc import Mapping

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call
from importers.traced.operations.norms import alone
from importers.traced.table import spelled
from ir.graph import Tensor

_TORCH: Mapping[object, str] = {0: "none", 1: "mean", 2: "sum", "mean": "mean"}
_MINDSPORE: Mapping[object, str] = {0: "sum", 1: "mean", 2: "none", "sum": "sum", "mean": "mean",
                                    "none": "none"}  # fmt: skip
"""What becomes of the losses of all rows, by number and by word; the mean unless told."""


def _reduction(call: Call, words: Mapping[object, str]) -> str:
    found = words.get(call.get("reduction", "mean"))
    if found is None:
        raise UnsupportedError(call.target)
    return found


@parametrised
def _entropy(call: Call, kind: str, words: Mapping[object, str]) -> None:
    """Class numbers as targets; smoothing and soft targets have no equal."""
    value, target = call.tensor("self"), call.tensor("target")
    if call.float("label_smoothing", 0.0) or "int" not in target.dtype or len(value.dims) < 2:
        raise UnsupportedError(call.target)
    call.emit(
        kind, [value, target, call.optional("weight")], count=1,
        reduction=_reduction(call, words), ignore_index=call.int("ignore_index", -100),
    )  # fmt: skip


_CLASSES = "weight, reduction, ignore_index"
_CROSS, _LIKELIHOOD = "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"
spelled(aten=f"cross_entropy_loss(self, target, {_CLASSES}, label_smoothing)")(
    _entropy(_CROSS, _TORCH)
)
spelled(aten=f"nll_loss nll_loss_nd(self, target, {_CLASSES})")(_entropy(_LIKELIHOOD, _TORCH))
spelled(
    mindir=f"CrossEntropyLoss(input as self, target, {_CLASSES}, label_smoothing,"
    "lse_square_scale_for_zloss, return_zloss)"
)(alone(_entropy(_CROSS, _MINDSPORE)))
spelled(mindir=f"NLLLoss(logits as self, labels as target, {_CLASSES})")(
    alone(_entropy(_LIKELIHOOD, _MINDSPORE))
)


def counting(call: Call, target: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows of a loss count, and how many."""
    ignored = call.scalar(call.int("ignore_index", -100), target.dtype)
    counted = call.logical_not(call.equal(target, ignored))
    ones = call.cast(counted, "float32")
    return counted, call.reduce_sum(ones, *range(len(target.dims)), keep=False)


@spelled(aten=f"nll_loss_forward(self, target, {_CLASSES})")
def _likelihood(call: Call) -> None:
    """The loss, and for the backward pass the number of rows that count."""
    _entropy(_LIKELIHOOD, _TORCH)(call)
    if call.is_read(1):
        if call.has("weight"):
            raise UnsupportedError(call.target)
        call.alias(counting(call, call.tensor("target"))[1], 1)


@spelled(mindir="SparseSoftmaxCrossEntropyWithLogits(features as self, labels as target, is_grad)")
def _sparse_entropy(call: Call) -> None:
    """The mean over the rows; its gradient is another primitive's result."""
    if call.flag("is_grad"):
        raise UnsupportedError(call.target)
    operands = [call.tensor("self"), call.tensor("target")]
    call.emit("SoftmaxCrossEntropyLoss", operands, count=1, reduction="mean")


@spelled(mindir="SoftmaxCrossEntropyWithLogits(logits as self, labels as target)")
def _soft_entropy(call: Call) -> None:
    """`-sum(labels * log_softmax(logits))` for each row."""
    if call.is_read(1):
        raise UnsupportedError(call.target)
    value, labels = call.tensor("self"), call.tensor("target")
    last = len(value.dims) - 1
    weighted = call.mul(call.op("LogSoftmax", [value], axis=last), labels)
    call.answer.neg(call.reduce_sum(weighted, last, keep=False))


@parametrised
def _error(call: Call, words: Mapping[object, str], *, squared: bool = True) -> None:
    """The difference, squared or without its sign."""
    rest = call.sub(call.tensor("self"), call.tensor("target"))
    value = call.mul(rest, rest) if squared else call.pointwise("Abs", rest)
    how = _reduction(call, words)
    if how == "none":
        call.alias(value)
    else:
        axes = range(len(value.dims))
        call.answer.reduce(f"Reduce{how.capitalize()}", value, axes, keep=False)


spelled(aten="mse_loss(self, target, reduction)")(_error(_TORCH))
spelled(mindir="MSELossExt(input as self, target, reduction)")(_error(_MINDSPORE))
spelled(aten="l1_loss(self, target, reduction)")(_error(_TORCH, squared=False))
