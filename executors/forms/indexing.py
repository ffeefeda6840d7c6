"""Gathers and scatters as ONNX nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from executors.onnx_form import Form, Writer


def _gather_elements(form: Form) -> None:
    """A gather from the flat tensor: the reference reads indices beyond the end as others, and
    takes only indices with the dims of the data.
    """
    dims, axis = form.dims(), form.int("axis")
    shape = form.dims(1)
    strides = [math.prod(dims[d + 1 :]) for d in range(len(dims))]
    places = np.indices(shape)
    start = sum(
        (places[d] * strides[d] for d in range(len(dims)) if d != axis), np.zeros(shape, np.int64)
    )
    rows = from_front(form, form.inputs[1], dims[axis])
    rows = form.add("Mul", [rows, form.constant(strides[axis])])
    rows = form.add("Add", [rows, form.constant(start)])
    flat = form.add("Reshape", [form.inputs[0], form.constant([-1])])
    form.add("Gather", [flat, rows], form.outputs, axis=0)


def _tensor_scatter(form: Form) -> None:
    operands = list(form.inputs)
    if form.int("write_offset"):
        offset = form.constant(form.int("write_offset"))
        operands[2] = form.add("Add", [operands[2], offset])
    kept = {k: v for k, v in form.op.attributes.items() if k != "write_offset"}
    form.add("TensorScatter", operands, form.outputs, **kept)


def from_front(form: Form, rows: str, size: int) -> str:
    """Indices counted from the front; what is beyond the end stays beyond every end."""
    rows = form.add("Cast", [rows], to=7)
    size_name = form.constant(size)
    negative = form.add("Less", [rows, form.constant(0)])
    rows = form.add("Where", [negative, form.add("Add", [rows, size_name]), rows])
    beyond = form.add(
        "Or",
        [form.add("Less", [rows, form.constant(0)]), form.add("GreaterOrEqual", [rows, size_name])],
    )
    return form.add("Where", [beyond, form.constant(BEYOND), rows])


BEYOND = 2**40
"""An index that no tensor has: the reference fails."""

INDEXING: Mapping[str, Writer] = MappingProxyType(
    {"GatherElements": _gather_elements, "TensorScatter": _tensor_scatter}
)
