"""Element-wise operators and random numbers whose form is not one node of the same attributes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from executors.onnx_form import RUNS_AS, Form, Writer


def result_dtype(form: Form) -> str:
    """Element type in which the first result is computed."""
    return RUNS_AS.get(form.result_dtypes[0], form.result_dtypes[0])


def result_code(form: Form) -> int:
    """ONNX's code of that type."""
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(result_dtype(form))))


def _cast(form: Form) -> None:
    form.add("Cast", form.inputs[:1], form.outputs, to=result_code(form))


def _dropout(form: Form) -> None:
    """Nothing is dropped: a mask would not be the same twice."""
    form.add("Identity", form.inputs[:1], form.outputs[:1])
    if len(form.outputs) > 1:
        kept = form.constant(np.ones(form.results[1]), np.bool_)
        form.add("Identity", [kept], form.outputs[1:])


def _bias_add(form: Form) -> None:
    axis, rank = form.int("axis", 1), len(form.dims())
    shape = form.constant([-1 if i == axis else 1 for i in range(rank)])
    bias = form.add("Reshape", [form.inputs[1], shape])
    form.add("Add", [form.inputs[0], bias], form.outputs)


def _clip(form: Form) -> None:
    names = [form.inputs[0]]
    for index, key in ((1, "min"), (2, "max")):
        bound = form.op.attributes.get(key)
        if form.has(index):
            names.append(form.inputs[index])
        else:
            names.append("" if bound is None else form.constant(bound, result_dtype(form)))
    form.add("Clip", names, form.outputs)


def _gelu_nodes(form: Form, data: str, approximate: str) -> None:
    """Written out, as the reference keeps the constants of its own form in single precision."""

    def number(value: float) -> str:
        return form.constant(value, result_dtype(form))

    if approximate == "tanh":
        cube = form.add("Mul", [form.add("Mul", [data, data]), data])
        inner = form.add("Add", [data, form.add("Mul", [cube, number(0.044715)])])
        share = form.add("Tanh", [form.add("Mul", [inner, number(math.sqrt(2.0 / math.pi))])])
    else:
        share = form.add("Erf", [form.add("Div", [data, number(math.sqrt(2.0))])])
    half = form.add("Mul", [data, number(0.5)])
    form.add("Mul", [half, form.add("Add", [share, number(1.0)])], form.outputs)


def _gelu(form: Form) -> None:
    _gelu_nodes(form, form.inputs[0], str(form.op.attributes.get("approximate", "none")))


def _biased_gelu(approximate: str) -> Writer:
    """The form of com.microsoft: a bias is added first where there is one."""

    def write(form: Form) -> None:
        data = form.add("Add", form.inputs[:2]) if form.has(1) else form.inputs[0]
        _gelu_nodes(form, data, approximate)

    return write


def _quick_gelu(form: Form) -> None:
    alpha = float(str(form.op.attributes.get("alpha", 1.702)))
    form.add("Swish", form.inputs, form.outputs, alpha=alpha)


def _softsign(form: Form) -> None:
    """Written out, as the reference refuses a single number."""
    data = form.inputs[0]
    one = form.constant(1, result_dtype(form))
    form.add("Div", [data, form.add("Add", [form.add("Abs", [data]), one])], form.outputs)


def _mean(form: Form) -> None:
    """Written out, as the reference does not broadcast to a shape that no operand has."""
    count = form.constant(len(form.inputs), result_dtype(form))
    form.add("Div", [_sum_of(form), count], form.outputs)


def _sum(form: Form) -> None:
    form.add("Identity", [_sum_of(form)], form.outputs)


def _sum_of(form: Form) -> str:
    total = form.inputs[0]
    for name in form.inputs[1:]:
        total = form.add("Add", [total, name])
    return total


def _random(form: Form) -> None:
    """With a seed, so that devices that hold the same draw the same."""
    more: dict[str, Any] = {} if form.op.inputs else {"shape": form.results[0]}
    seed = float(zlib.crc32(form.op.kind.encode()) % 1000)
    form.same(**more, seed=seed, dtype=result_code(form))


ELEMENTWISE: Mapping[str, Writer] = MappingProxyType(
    {
        "Cast": _cast,
        "Dropout": _dropout,
        "BiasAdd": _bias_add,
        "Clip": _clip,
        "Gelu": _gelu,
        "FastGelu": _biased_gelu("tanh"),
        "BiasGelu": _biased_gelu("none"),
        "QuickGelu": _quick_gelu,
        "Softsign": _softsign,
        "Sum": _sum,
        "Mean": _mean,
        **dict.fromkeys(
            (
                "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike",
                "Bernoulli", "Multinomial",
            ),
            _random,
        ),
    }
)  # fmt: skip
