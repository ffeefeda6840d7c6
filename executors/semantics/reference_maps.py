"""Operators whose gradient follows from what ONNX's reference makes of other numbers: linear ones
from unit arrays, those that only move elements from the places of these.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TypeAlias

import numpy as np
from onnx.reference import ReferenceEvaluator

from executors.onnx_form import Dims, Form, Writer
from executors.placement import Array
from executors.semantics import onnx_forms
from ir.graph import AttributeValue, Op
from ir.semantics.arrays import constant
from ir.semantics.arrays import np as anp
from ir.semantics.call import Call

Attributes: TypeAlias = tuple[tuple[str, AttributeValue], ...]


@cache
def linear_map(
    kind: str, attributes: Attributes, dims: Dims, result: Dims, writer: Writer
) -> tuple[Array, Array]:
    """An operator of one operand as a matrix, and what it makes of zeros.

    Args:
        kind: the operator; its operand and result have a first dimension of samples.
        attributes: of the operator, by name.
        dims: of a sample.
        result: dims of a sample of the result.
        writer: writes its nodes.

    Returns:
        Shapes (*dims, *result) and `result`.
    """
    op = Op("map", kind, ("samples",), ("results",), dict(attributes))
    count = math.prod(dims)
    units = np.concatenate([np.zeros((1, count)), np.eye(count)]).reshape(-1, *dims)
    form = Form(op, [units.shape], [(count + 1, *result)], ["float64"])
    found = _made(form, writer, {"in0": units})
    return (found[1:] - found[0]).reshape(*dims, *result), found[0]


def _made(form: Form, writer: Writer, feeds: dict[str, Array]) -> Array:
    (found,) = ReferenceEvaluator(onnx_forms.model_of(form, writer)).run(None, feeds)
    return np.asarray(found)


def moved_as(call: Call, writer: Writer) -> list[Array]:
    """An operator that only moves elements, and fills with zeros: the reference moves the numbers
    of the elements, from 1 on.
    """
    feeds: dict[str, Array] = {}
    flat: list[Array] = []
    count = 1
    for index, operand in enumerate(call.operands):
        if operand is None:
            continue
        if np.issubdtype(operand.dtype, np.floating):
            numbers = count + np.arange(math.prod(operand.shape), dtype=np.float64)
            feeds[f"in{index}"] = numbers.reshape(operand.shape)
            flat.append(anp.reshape(operand, (-1,)))
            count += len(numbers)
        else:
            feeds[f"in{index}"] = np.asarray(constant(operand))
    dims = [None if a is None else a.shape for a in call.operands]
    form = Form(call.op, dims, call.result_dims, ["float64"])
    found = _made(form, writer, feeds)
    if not flat:
        return [found]
    zero = np.zeros(1, flat[0].dtype)
    return [anp.concatenate([zero, *flat])[found.astype(np.int64)]]


def rearranged(call: Call) -> list[Array]:
    """A kind without semantics of its own."""
    return moved_as(call, Form.same)


def tensor_scatter(call: Call) -> list[Array]:
    return moved_as(call, onnx_forms.tensor_scatter)
