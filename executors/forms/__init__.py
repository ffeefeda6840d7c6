"""Operators as ONNX nodes, by kind. A kind that is not listed is one node as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import onnx
from onnx import numpy_helper

from executors.forms.attention import ATTENTION
from executors.forms.elementwise import ELEMENTWISE
from executors.forms.ends import ENDS
from executors.forms.images import IMAGES
from executors.forms.products import PRODUCTS
from executors.forms.quantised import QUANTISED
from executors.forms.shape import SHAPE
from executors.forms.statistics import STATISTICS
from executors.onnx_form import OPSET, Form, Writer

__all__ = ["FORMS", "model_of"]

FORMS: Mapping[str, Writer] = MappingProxyType(
    {
        **ATTENTION,
        **IMAGES,
        **PRODUCTS,
        **QUANTISED,
        **STATISTICS,
        **ELEMENTWISE,
        **ENDS,
        **SHAPE,
    }
)


def model_of(form: Form) -> onnx.ModelProto:
    """A model with the nodes of one operator, without types: the reference needs none."""
    writer = FORMS.get(form.op.kind, Form.same)
    writer(form)
    graph = onnx.GraphProto(name=form.op.kind, node=form.nodes)
    graph.input.extend(onnx.ValueInfoProto(name=n) for n in form.inputs if n)
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in form.outputs if n)
    graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in form.constants.items())
    opset = onnx.OperatorSetIdProto(domain="", version=OPSET)
    return onnx.ModelProto(ir_version=10, graph=graph, opset_import=[opset])
