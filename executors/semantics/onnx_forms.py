"""Operators as ONNX nodes whose gradients are found from what ONNX's reference makes of numbers."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import numpy_helper

from executors.onnx_form import OPSET, Form, Writer


def max_unpool(form: Form) -> None:
    """The dims of the image are an operand."""
    inputs = [*form.inputs[:2], form.constant(form.results[0])]
    form.add(form.op.kind, inputs, form.outputs, **dict(form.op.attributes))


def _floats(form: Form, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
    value = form.op.attributes.get(key, default)
    return tuple(float(v) for v in value) if isinstance(value, tuple) else default


def resize(form: Form) -> None:
    """By its sizes where its scales follow from them, else by scales."""
    attributes = {k: v for k, v in form.op.attributes.items() if k not in {"scales", "roi"}}
    # Where it is left to the reference, it is in single precision.
    attributes = {"cubic_coeff_a": -0.75, **attributes}
    if form.op.kind == "Upsample":
        attributes = {
            "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", **attributes
        }  # fmt: skip
    dims, result, rank = form.dims(), form.results[0], len(form.dims())
    region = _floats(form, "roi", (0.0,) * rank + (1.0,) * rank)
    scales = _floats(form, "scales", ())
    ratios = [w / s if s else 1.0 for w, s in zip(result, dims, strict=True)]
    told = all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(scales, ratios, strict=False))
    roi = form.constant(region, np.float64)
    if told:
        operands = [form.inputs[0], roi, "", form.constant(result)]
    else:
        operands = [form.inputs[0], roi, form.constant(scales, np.float64)]
    form.add("Resize", operands, form.outputs, **attributes)


def affine_grid(form: Form) -> None:
    """The dims of the image are an operand."""
    size = form.constant([form.results[0][0], 1, *form.results[0][1:-1]])
    form.add(form.op.kind, [form.inputs[0], size], form.outputs, **dict(form.op.attributes))


def dft(form: Form) -> None:
    """Length and axis are operands."""
    operands = [form.inputs[0], form.constant(form.int("length")), form.constant(form.int("axis"))]
    kept = {k: v for k, v in form.op.attributes.items() if k in {"inverse", "onesided"}}
    form.add(form.op.kind, operands, form.outputs, **kept)


def tensor_scatter(form: Form) -> None:
    """An offset is added to the places."""
    operands = list(form.inputs)
    if form.int("write_offset"):
        offset = form.constant(form.int("write_offset"))
        operands[2] = form.add("Add", [operands[2], offset])
    kept = {k: v for k, v in form.op.attributes.items() if k != "write_offset"}
    form.add(form.op.kind, operands, form.outputs, **kept)


def model_of(form: Form, writer: Writer) -> onnx.ModelProto:
    """A model with the nodes of one operator, without types: the reference needs none."""
    writer(form)
    graph = onnx.GraphProto(name=form.op.kind, node=form.nodes)
    graph.input.extend(onnx.ValueInfoProto(name=n) for n in form.inputs if n)
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in form.outputs if n)
    graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in form.constants.items())
    opset = onnx.OperatorSetIdProto(domain="", version=OPSET)
    return onnx.ModelProto(ir_version=10, graph=graph, opset_import=[opset])
