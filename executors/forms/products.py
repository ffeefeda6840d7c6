"""Factors that stand before products."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.forms.elementwise import result_dtype
from executors.onnx_form import Form, Writer


def _scale(form: Form) -> None:
    factor = form.constant(form.op.attributes["scale"], result_dtype(form))
    form.add("Mul", [form.inputs[0], factor], form.outputs)


PRODUCTS: Mapping[str, Writer] = MappingProxyType({"Scale": _scale})
