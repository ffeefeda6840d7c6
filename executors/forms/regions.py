"""Pooling of regions, of which the `onnx` package has no reference operator."""

from __future__ import annotations

import numpy as np
import onnx

from executors.forms.elementwise import result_dtype
from executors.onnx_form import Form


def max_roi_pool(form: Form) -> None:
    """Maximum over rows, then over columns, of what lies in a bin; an empty bin is zero."""
    dtype = result_dtype(form)
    first = form.add("Gather", [form.inputs[1], form.constant(0)], axis=1)
    image = form.add("Cast", [first], to=int(onnx.TensorProto.INT64))
    data = form.add("Gather", [form.inputs[0], image], axis=0)
    scale = form.constant(float(str(form.op.attributes.get("spatial_scale", 1.0))), dtype)
    found = _largest_in_bins(form, data, (2, 4, 2), scale)
    found = _largest_in_bins(form, found, (1, 3, 3), scale)
    empty = form.add("IsInf", [found])
    form.add("Where", [empty, form.constant(0, dtype), found], form.outputs)


def _largest_in_bins(form: Form, data: str, place: tuple[int, int, int], scale: str) -> str:
    """Maximum over one dimension.

    Args:
        form: the nodes.
        data: regions, channels, rows or bins of them, columns.
        place: columns of the regions with first and last position, and the dimension.
        scale: from positions of regions to positions of the image.
    """
    dtype, (first, last, dim) = result_dtype(form), place
    wanted, size = form.results[0][dim], form.dims()[dim]
    start, end = (_rounded(form, column, scale) for column in (first, last))
    one = form.constant(1, dtype)
    length = form.add("Max", [form.add("Add", [form.add("Sub", [end, start]), one]), one])
    edges = []
    for kind, more in (("Floor", 0), ("Ceil", 1)):
        number = form.constant(np.arange(wanted) + more, dtype)
        share = form.add("Div", [form.add("Mul", [number, length]), form.constant(wanted, dtype)])
        edges.append(form.add("Add", [form.add(kind, [share]), start]))
    low, high = (form.add("Unsqueeze", [e, form.constant([2])]) for e in edges)
    places = form.constant(np.arange(size), dtype)
    mask = form.add(
        "And",
        [form.add("GreaterOrEqual", [places, low]), form.add("Less", [places, high])],
    )
    # Regions, bins and positions of the mask stand at their dimensions; the others are one.
    mask = form.add("Unsqueeze", [mask, form.constant([1, 4] if dim == 2 else [1, 2])])
    wide = form.add("Unsqueeze", [data, form.constant([dim])])
    seen = form.add("Where", [mask, wide, form.constant(-np.inf, dtype)])
    return form.add("ReduceMax", [seen, form.constant([dim + 1])], keepdims=0)


def _rounded(form: Form, column: int, scale: str) -> str:
    """A coordinate of every region, rounded to the nearest position, halves away from zero."""
    place = form.add("Gather", [form.inputs[1], form.constant([column])], axis=1)
    scaled = form.add("Mul", [place, scale])
    half = form.constant(0.5, result_dtype(form))
    size = form.add("Floor", [form.add("Add", [form.add("Abs", [scaled]), half])])
    return form.add("Mul", [form.add("Sign", [scaled]), size])
