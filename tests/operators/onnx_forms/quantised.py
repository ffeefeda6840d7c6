"""Quantised operators, with zero points in the shape that the reference takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import onnx

from executors.onnx_form import Form, Writer
from tests.operators.onnx_forms.elementwise import result_code


def _quantise(form: Form) -> None:
    """The type of the result is that of the zero point, or an attribute."""
    kept = {k: v for k, v in form.op.attributes.items() if k in {"axis", "block_size", "saturate"}}
    if not form.has(2):
        kept["output_dtype"] = result_code(form)
    form.add("QuantizeLinear", form.inputs, form.outputs, **kept)


def _dequantise(form: Form) -> None:
    kept = {k: v for k, v in form.op.attributes.items() if k in {"axis", "block_size"}}
    form.add("DequantizeLinear", form.inputs, form.outputs, **kept)


def _as_column(form: Form, index: int) -> str:
    """A scale or zero point of rows, one below the other."""
    if not form.has(index):
        return ""
    dims = form.dims(index)
    if len(dims) != 1 or dims[0] == 1:
        return form.inputs[index]
    return form.add("Unsqueeze", [form.inputs[index], form.constant([1])])


def _integer_matmul(form: Form) -> None:
    names = list(form.inputs)
    if form.has(2):
        names[2] = _as_column(form, 2)
    form.add("MatMulInteger", names, form.outputs)


def _rounded_matmul(form: Form) -> None:
    names = [_as_column(form, i) if i in (1, 2) else n for i, n in enumerate(form.inputs)]
    form.add("QLinearMatMul", names, form.outputs)


def _integer_conv(form: Form) -> None:
    """A convolution of whole numbers from which the zero points are taken before."""
    wide = int(onnx.TensorProto.INT32)
    names = []
    for data, point in ((0, 2), (1, 3)):
        name = form.add("Cast", [form.inputs[data]], to=wide)
        if form.has(point):
            taken = form.add("Cast", [form.inputs[point]], to=wide)
            if math.prod(form.dims(point)) > 1:
                shape = [-1, *[1] * (len(form.dims(data)) - 1)]
                taken = form.add("Reshape", [taken, form.constant(shape)])
            name = form.add("Sub", [name, taken])
        names.append(name)
    form.add("Conv", names, form.outputs, **dict(form.op.attributes))


QUANTISED: Mapping[str, Writer] = MappingProxyType(
    {
        "QuantizeLinear": _quantise,
        "DequantizeLinear": _dequantise,
        "MatMulInteger": _integer_matmul,
        "QLinearMatMul": _rounded_matmul,
        "ConvInteger": _integer_conv,
    }
)
