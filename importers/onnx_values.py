"""Values of small constants: the arithmetic on shapes that exporters leave in the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from ir.ops import catalogue
from ir.ops.spelling import Function

MAX_ELEMENTS = 1 << 16
"""Constants above this size keep their dims but not their numbers."""

Array: TypeAlias = NDArray[Any]
Attributes: TypeAlias = Mapping[str, object]
Evaluator: TypeAlias = Callable[[list[Array], Attributes], Array]


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


def _bounded(dims: Iterable[int]) -> None:
    """Refuse a result too large to keep before it is made."""
    if math.prod(dims) > MAX_ELEMENTS:
        raise ValueError("too large to keep")


def _axes(inputs: list[Array], attributes: Attributes, position: int = 1) -> tuple[int, ...]:
    if len(inputs) > position:
        return tuple(int(a) for a in np.atleast_1d(inputs[position]))
    axes = attributes.get("axes", ())
    return tuple(int(a) for a in axes) if isinstance(axes, list | tuple) else ()


def _int(attributes: Attributes, key: str, default: int) -> int:
    value = attributes.get(key, default)
    return value if isinstance(value, int) else default


def _cast(inputs: list[Array], attributes: Attributes) -> Array:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(_int(attributes, "to", onnx.TensorProto.FLOAT))
    return inputs[0].astype(dtype)


def _unsqueeze(inputs: list[Array], attributes: Attributes) -> Array:
    return np.expand_dims(inputs[0], _axes(inputs, attributes))


def _squeeze(inputs: list[Array], attributes: Attributes) -> Array:
    axes = _axes(inputs, attributes)
    return np.squeeze(inputs[0], axes or None)


def _reshape(inputs: list[Array], attributes: Attributes) -> Array:
    target = [int(d) for d in inputs[1]]
    if not _int(attributes, "allowzero", 0):
        target = [inputs[0].shape[i] if d == 0 else d for i, d in enumerate(target)]
    return inputs[0].reshape(target)


def _slice(inputs: list[Array], attributes: Attributes) -> Array:
    def part(position: int, key: str) -> list[int]:
        if len(inputs) > position:
            return [int(v) for v in inputs[position]]
        value = attributes.get(key, ())
        return [int(v) for v in value] if isinstance(value, list | tuple) else []

    starts, ends = part(1, "starts"), part(2, "ends")
    axes = part(3, "axes") or list(range(len(starts)))
    steps = part(4, "steps") or [1] * len(starts)
    index: list[slice] = [slice(None)] * inputs[0].ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        low = None if step < 0 and end < -inputs[0].shape[axis] else end
        index[axis] = slice(start, low, step)
    return inputs[0][tuple(index)]


def _constant_of_shape(inputs: list[Array], attributes: Attributes) -> Array:
    fill = attributes.get("value")
    value = (
        numpy_helper.to_array(fill)
        if isinstance(fill, onnx.TensorProto)
        else np.zeros(1, np.float32)
    )
    shape = tuple(int(d) for d in inputs[0])
    _bounded(shape)
    return np.full(shape, value.reshape(-1)[0], value.dtype)


def _expand(inputs: list[Array], _: Attributes) -> Array:
    shape = np.broadcast_shapes(inputs[0].shape, tuple(int(d) for d in inputs[1]))
    _bounded(shape)
    return np.broadcast_to(inputs[0], shape)


def _range(inputs: list[Array], _: Attributes) -> Array:
    start, limit, delta = (v.reshape(-1)[0].item() for v in inputs)
    if not abs((limit - start) / delta) <= MAX_ELEMENTS:
        raise ValueError("too large to keep")
    return np.arange(start, limit, delta, dtype=inputs[0].dtype)


def _gather(inputs: list[Array], attributes: Attributes) -> Array:
    axis = _int(attributes, "axis", 0)
    data, indices = inputs[0], inputs[1].astype(np.int64)
    _bounded((data.size // max(1, data.shape[axis]), indices.size))
    return np.asarray(np.take(data, indices, axis=axis))


def _concat(inputs: list[Array], attributes: Attributes) -> Array:
    if sum(v.size for v in inputs) > MAX_ELEMENTS:
        raise ValueError("too large to keep")
    return np.concatenate(inputs, axis=_int(attributes, "axis", 0))


def _divide(a: Array, b: Array) -> object:
    if np.issubdtype(a.dtype, np.integer):
        return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return a / b


def _modulo(inputs: list[Array], attributes: Attributes) -> Array:
    _bounded(np.broadcast_shapes(inputs[0].shape, inputs[1].shape))
    function = np.fmod if _int(attributes, "fmod", 0) else np.mod
    return np.asarray(function(inputs[0], inputs[1]))


def _cumulative_sum(inputs: list[Array], attributes: Attributes) -> Array:
    if _int(attributes, "exclusive", 0) or _int(attributes, "reverse", 0):
        raise ValueError("another order")
    axis = int(inputs[1].reshape(-1)[0])
    return np.asarray(np.cumsum(inputs[0], axis=axis, dtype=inputs[0].dtype))


def _reduce(function: Callable[..., Array]) -> Evaluator:
    def evaluate(inputs: list[Array], attributes: Attributes) -> Array:
        axes = _axes(inputs, attributes) or None
        if axes is None and _int(attributes, "noop_with_empty_axes", 0):
            return inputs[0]
        keep = bool(_int(attributes, "keepdims", 1))
        return np.asarray(function(inputs[0], axis=axes, keepdims=keep)).astype(inputs[0].dtype)

    return evaluate


def _gather_nd(inputs: list[Array], attributes: Attributes) -> Array:
    if _int(attributes, "batch_dims", 0):
        raise ValueError("batch_dims")
    data, indices = inputs[0], inputs[1].astype(np.int64)
    _bounded((math.prod(indices.shape[:-1]), *data.shape[indices.shape[-1] :]))
    return np.asarray(data[tuple(np.moveaxis(indices, -1, 0))])


def _non_zero(inputs: list[Array], _: Attributes) -> Array:
    return np.asarray(np.nonzero(inputs[0]), np.int64)


def _scatter_elements(inputs: list[Array], attributes: Attributes) -> Array:
    if attributes.get("reduction", "none") != "none":
        raise ValueError("a reduction")
    value = inputs[0].copy()
    np.put_along_axis(value, inputs[1], inputs[2], _int(attributes, "axis", 0))
    return value


def _pure(function: Callable[..., object]) -> Evaluator:
    """A function of operands that are broadcast."""

    def evaluate(inputs: list[Array], _: Attributes) -> Array:
        _bounded(np.broadcast_shapes(*(v.shape for v in inputs)))
        return np.asarray(function(*inputs))

    return evaluate


def _joining(known: Function) -> Callable[..., object]:
    """The function of a kind; one of two operands joins more of them, one after the other."""
    function = getattr(np, known.numpy)

    def joined(*operands: Array) -> object:
        if len(operands) <= known.operands:
            return function(*operands)
        return reduce(function, operands)

    return joined


def _transpose(inputs: list[Array], attributes: Attributes) -> Array:
    perm = attributes.get("perm")
    return np.transpose(inputs[0], perm if isinstance(perm, list | tuple) else None)


POINTWISE: Mapping[str, Evaluator] = MappingProxyType(
    {
        **{
            kind: _pure(_joining(entry.function))
            for kind, entry in catalogue().items()
            if entry.function and entry.function.numpy
        },
        "Div": _pure(_divide),
        "Pow": _pure(lambda a, b: np.power(a, b).astype(a.dtype)),
        "Where": _pure(np.where),
        "Identity": _pure(np.asarray),
    }
)
"""Functions of each element, of operands that are broadcast."""
EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {
        **POINTWISE,
        "Mod": _modulo, "Cast": _cast, "CastLike": lambda v, _: v[0].astype(v[1].dtype),
        "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Reshape": _reshape, "Slice": _slice,
        "Gather": _gather, "GatherND": _gather_nd, "Concat": _concat,
        "Transpose": _transpose, "Expand": _expand,
        "ConstantOfShape": _constant_of_shape, "Range": _range,
        "ReduceProd": _reduce(np.prod), "ReduceSum": _reduce(np.sum),
        "ReduceMax": _reduce(np.max), "ReduceMin": _reduce(np.min),
        "CumSum": _cumulative_sum, "NonZero": _non_zero, "ScatterElements": _scatter_elements,
    }
)  # fmt: skip


_FAILURES = (
    ArithmeticError, AttributeError, IndexError, KeyError, MemoryError, TypeError, ValueError,
)  # fmt: skip
"""What evaluators raise for operands and attributes that do not fit; the result is then unknown."""


def evaluate(kind: str, inputs: list[Array], attributes: Attributes) -> Array | None:
    """Result of a small constant operator; None where it is not known how, or too large."""
    function = EVALUATORS.get(kind)
    if function is None or any(v.size > MAX_ELEMENTS or v.dtype.kind == "c" for v in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            value = function(inputs, attributes)
    except _FAILURES:
        return None
    return value if value.size <= MAX_ELEMENTS else None
