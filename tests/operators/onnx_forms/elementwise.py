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


def _clip(form: Form) -> None:
    names = [form.inputs[0]]
    for index, key in ((1, "min"), (2, "max")):
        bound = form.op.attributes.get(key)
        if form.has(index):
            names.append(form.inputs[index])
        else:
            names.append("" if bound is None else form.constant(bound, result_dtype(form)))
    form.add("Clip", names, form.outputs)


def _gelu(form: Form) -> None:
    """Written out, as the reference keeps the constants of its own form in single precision."""
    data = form.inputs[0]

    def number(value: float) -> str:
        return form.constant(value, result_dtype(form))

    if form.op.attributes.get("approximate") == "tanh":
        cube = form.add("Mul", [form.add("Mul", [data, data]), data])
        inner = form.add("Add", [data, form.add("Mul", [cube, number(0.044715)])])
        share = form.add("Tanh", [form.add("Mul", [inner, number(math.sqrt(2.0 / math.pi))])])
    else:
        share = form.add("Erf", [form.add("Div", [data, number(math.sqrt(2.0))])])
    half = form.add("Mul", [data, number(0.5)])
    form.add("Mul", [half, form.add("Add", [share, number(1.0)])], form.outputs)


def _random(form: Form) -> None:
    """With a seed, so that devices that hold the same draw the same."""
    more: dict[str, Any] = {} if form.op.inputs else {"shape": form.results[0]}
    seed = float(zlib.crc32(form.op.kind.encode()) % 1000)
    form.same(**more, seed=seed, dtype=result_code(form))


ELEMENTWISE: Mapping[str, Writer] = MappingProxyType(
    {
        "Cast": _cast,
        "Clip": _clip,
        "Gelu": _gelu,
        **dict.fromkeys(
            (
                "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike",
                "Bernoulli", "Multinomial",
            ),
            _random,
        ),
    }
)  # fmt: skip
