"""Reductions, softmax, scans and normalisations as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.onnx_form import Form, Writer


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


def _batch_norm(form: Form) -> None:
    form.same(training_mode=form.int("training", 1))


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
        "BatchNormalization": _batch_norm,
    }
)  # fmt: skip
