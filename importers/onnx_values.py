"""Values of small constants and attributes of an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

MAX_ELEMENTS = 1 << 16
"""Constants above this size keep their dims but not their numbers."""

Array: TypeAlias = NDArray[Any]
Attributes: TypeAlias = Mapping[str, object]


def attributes_of(node: onnx.NodeProto) -> dict[str, object]:
    """Attributes of a node as plain values; graphs are left out."""
    found: dict[str, object] = {}
    for attribute in node.attribute:
        if attribute.type in {onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS}:
            continue
        if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.external_data:
            continue
        value = onnx.helper.get_attribute_value(attribute)
        found[attribute.name] = (
            value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        )
    return found


def tensor_value(tensor: onnx.TensorProto) -> Array | None:
    """Numbers of a small inline tensor, else None."""
    outside = tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL
    text = tensor.data_type == onnx.TensorProto.STRING
    if outside or text or math.prod(tensor.dims) > MAX_ELEMENTS:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError):
        return None


def literal(attributes: Attributes) -> Array | None:
    """Numbers of a `Constant`, by its attributes."""
    for key in ("value", "value_int", "value_ints", "value_float", "value_floats"):
        value = attributes.get(key)
        if isinstance(value, onnx.TensorProto):
            return tensor_value(value)
        if value is not None:
            return np.asarray(value, np.float32 if "float" in key else np.int64)
    return None


def element_code(value: Array) -> int | None:
    """ONNX's code for the element type of an array; None for a type that it does not have."""
    try:
        return int(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))
    except (ValueError, KeyError, TypeError):
        return None
