"""Nodes of small constants, computed at import by the functions that executors run.

Exporters leave arithmetic on shapes in the graph, and tables of positions and masks.
"""

from __future__ import annotations

import numpy as np
import onnx

from importers.errors import UnsupportedError
from importers.onnx_attributes import to_ops
from importers.onnx_node import NodeContext
from importers.onnx_values import MAX_ELEMENTS, Array
from ir.graph import Op
from ir.ops.random import DRAWN
from ir.semantics import OF_CONSTANTS
from ir.semantics.call import Call

_FAILURES = (
    ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, UnsupportedError,
    ValueError,
)  # fmt: skip
"""What operators raise for operands and attributes that do not fit; the result is then unknown."""


def folded(context: NodeContext) -> Array | None:
    """The result of a node whose operands are known; None where it is not known how, or too large.

    Args:
        context: the node; dims and types of its result are known unless they follow from numbers.
    """
    node, facts = context.node, context.facts
    arrays = {name: facts.value[name] for name in node.input}
    large = any(a.size > MAX_ELEMENTS or a.dtype.kind == "c" for a in arrays.values())
    if large or not context.is_standard or len(node.output) != 1:
        return None
    try:
        with np.errstate(all="ignore"):
            for op in to_ops(context):
                _compute(op, context, arrays)
    except _FAILURES:
        return None
    return arrays[node.output[0]]


def _compute(op: Op, context: NodeContext, arrays: dict[str, Array]) -> None:
    """Add the results of an operator to what is known.

    Raises:
        ValueError: they are drawn at random, or too large to keep.
    """
    facts = context.facts
    dims = tuple(facts.dims[n] for n in op.outputs if n in facts.dims)
    if op.kind in DRAWN or any(np.prod(d, dtype=np.float64) > MAX_ELEMENTS for d in dims):
        raise ValueError("drawn, or too large to keep")
    operands = tuple(arrays[n] if n else None for n in op.inputs)
    made = OF_CONSTANTS[op.kind](Call(op, operands, dims))
    for name, array in zip(op.outputs, made, strict=True):
        code = facts.code.get(name)
        dtype = array.dtype if code is None else onnx.helper.tensor_dtype_to_np_dtype(code)
        arrays[name] = np.asarray(array).astype(dtype)
