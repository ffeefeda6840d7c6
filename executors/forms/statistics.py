"""Reductions, softmax, scans and normalisations as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from executors.onnx_form import RUNS_AS, Form, Writer
from ir.ops.normalisation import MEAN_VARIANCE_EPSILON


def _number(form: Form, value: object) -> str:
    """A constant of the type of the result."""
    dtype = form.result_dtypes[0]
    return form.constant(value, np.dtype(RUNS_AS.get(dtype, dtype)))


def _reduce(form: Form) -> None:
    axes = form.constant(form.ints("axes", tuple(range(len(form.dims())))))
    keep = len(form.results[0]) == len(form.dims())
    form.add(form.op.kind, [form.inputs[0], axes], form.outputs, keepdims=int(keep))


def _arg(form: Form) -> None:
    keep = len(form.results[0]) == len(form.dims())
    form.same(keepdims=int(keep))


def _top_k(form: Form) -> None:
    axis = form.int("axis", len(form.dims()) - 1)
    kept = {k: v for k, v in form.op.attributes.items() if k in {"largest", "sorted"}}
    k = form.constant([form.results[0][axis]])
    form.add("TopK", [form.inputs[0], k], form.outputs, axis=axis, **kept)


def _softmax(form: Form) -> None:
    axis = form.int("axis", len(form.dims()) - 1)
    if not form.int("to_end"):
        form.add(form.op.kind, form.inputs, form.outputs, axis=axis)
        return
    flat = form.add("Flatten", form.inputs, axis=axis)
    soft = form.add(form.op.kind, [flat], axis=1)
    form.add("Reshape", [soft, form.constant(form.results[0])], form.outputs)


def _scan(form: Form) -> None:
    kept = {k: v for k, v in form.op.attributes.items() if k in {"exclusive", "reverse"}}
    axis = form.constant(form.int("axis"))
    form.add(form.op.kind, [form.inputs[0], axis], form.outputs, **kept)


def _rms_norm(form: Form) -> None:
    """ONNX's operator has one result; the inverse of the root is the second one of others."""
    if len(form.outputs) == 1:
        form.same("RMSNormalization")
        return
    rank = len(form.dims())
    axes = form.constant(range(form.int("axis", rank - 1), rank))
    square = form.add("Mul", [form.inputs[0], form.inputs[0]])
    mean = form.add("ReduceMean", [square, axes], keepdims=1)
    epsilon = _number(form, form.op.attributes.get("epsilon", 1e-5))
    root = form.add("Sqrt", [form.add("Add", [mean, epsilon])])
    inverse = form.add("Reciprocal", [root], form.outputs[1:])
    normal = form.add("Mul", [form.inputs[0], inverse])
    form.add("Mul", [normal, form.inputs[1]], form.outputs[:1])


def _batch_norm(form: Form) -> None:
    form.same(training_mode=form.int("training", 1))


def _group_norm(form: Form) -> None:
    """Groups are the channels of an instance normalisation. Scale and bias are those of the
    channels, before opset 21 those of the groups.
    """
    groups = form.int("num_groups", 1)
    of_groups = form.dims(1) == (groups,)
    neutral = [_number(form, np.ones(groups)), _number(form, np.zeros(groups))]
    vectors = form.inputs[1:3] if of_groups else neutral
    parts = form.add("Reshape", [form.inputs[0], form.constant([0, groups, -1])])
    epsilon = form.op.attributes.get("epsilon", 1e-5)
    out = form.add("InstanceNormalization", [parts, *vectors], epsilon=epsilon)
    whole = [out, form.constant(form.results[0])]
    if of_groups:
        form.add("Reshape", whole, form.outputs)
        return
    shape = form.constant([-1 if i == 1 else 1 for i in range(len(form.dims()))])
    scale, bias = (form.add("Reshape", [n, shape]) for n in form.inputs[1:3])
    scaled = form.add("Mul", [form.add("Reshape", whole), scale])
    form.add("Add", [scaled, bias], form.outputs)


def _lp_norm(form: Form) -> None:
    """ONNX's reference has no absolute values."""
    axis, kind = form.int("axis", len(form.dims()) - 1), f"ReduceL{form.int('p', 2)}"
    norm = form.add(kind, [form.inputs[0], form.constant([axis])], keepdims=1)
    zero = form.add("Equal", [norm, _number(form, 0)])
    safe = form.add("Where", [zero, _number(form, 1), norm])
    form.add("Div", [form.inputs[0], safe], form.outputs)


def _mean_variance(form: Form) -> None:
    """The function body of ONNX is of single precision."""
    axes = form.constant(form.ints("axes", (0, 2, 3)))
    mean = form.add("ReduceMean", [form.inputs[0], axes], keepdims=1)
    centred = form.add("Sub", [form.inputs[0], mean])
    variance = form.add("ReduceMean", [form.add("Mul", [centred, centred]), axes], keepdims=1)
    epsilon = _number(form, MEAN_VARIANCE_EPSILON)
    deviation = form.add("Add", [form.add("Sqrt", [variance]), epsilon])
    form.add("Div", [centred, deviation], form.outputs)


def _local_response(form: Form) -> None:
    """ONNX's reference counts images where it means channels."""
    values = form.op.attributes
    size = form.int("size", 5)
    square = form.add("Mul", [form.inputs[0], form.inputs[0]])
    channels = form.dims()[1]
    below, above = (size - 1) // 2, size // 2
    band = _number(form, np.tri(channels, k=above) - np.tri(channels, k=-below - 1))
    total = form.add("Einsum", [square, band], equation="nc...,dc->nd...")
    share = _number(form, float(str(values.get("alpha", 1e-4))) / size)
    bias = _number(form, values.get("bias", 1.0))
    base = form.add("Add", [form.add("Mul", [total, share]), bias])
    power = form.add("Pow", [base, _number(form, values.get("beta", 0.75))])
    form.add("Div", [form.inputs[0], power], form.outputs)


STATISTICS: Mapping[str, Writer] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
                "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
            ),
            _reduce,
        ),
        **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
        "TopK": _top_k,
        **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
        **dict.fromkeys(("CumSum", "CumProd"), _scan),
        **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization"), _rms_norm),
        "BatchNormalization": _batch_norm,
        "GroupNormalization": _group_norm,
        "LpNormalization": _lp_norm,
        "MeanVarianceNormalization": _mean_variance,
        "LRN": _local_response,
    }
)  # fmt: skip
