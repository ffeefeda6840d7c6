"""The ends of a graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from executors.onnx_form import Form, Writer
from tests.operators.onnx_forms.elementwise import result_dtype


def _loss(form: Form) -> None:
    """Mean over the rows of softmax cross-entropy, with the row's number as its class; a vector
    has one score in each row, of the class that an odd row has.
    """
    dims, data = form.dims(), form.inputs[0]
    if not dims:
        form.add("Identity", [data], form.outputs)
        return
    if len(dims) == 1:
        dims = (dims[0], 2)
        other = form.add("Mul", [data, form.constant(0, result_dtype(form))])
        last = form.constant([1])
        columns = [form.add("Unsqueeze", [x, last]) for x in (other, data)]
        data = form.add("Concat", columns, axis=1)
    rows, classes = math.prod(dims[:-1]), dims[-1]
    flat = form.add("Reshape", [data, form.constant([rows, classes])])
    wanted = form.constant((form.int("first_row") + np.arange(rows)) % classes)
    form.add("SoftmaxCrossEntropyLoss", [flat, wanted], form.outputs, reduction="mean")


ENDS: Mapping[str, Writer] = MappingProxyType({"Loss": _loss})
