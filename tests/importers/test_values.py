"""Constant arithmetic agrees with ONNX, or says that it does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from importers.errors import ModelError
from importers.onnx_dimensions import evaluate_dimension
from importers.onnx_shapes import ShapeInference
from importers.onnx_values import MAX_ELEMENTS, Array

pytestmark = pytest.mark.fast

I, F = np.int64, np.float32

CASES: tuple[tuple[str, list[Array], dict[str, object]], ...] = (
    ("Add", [np.array([1, 2], I), np.array([[3], [4]], I)], {}),
    ("Div", [np.array([-7, 7, 9], I), np.array([2, -2, 4], I)], {}),
    ("Div", [np.array([1, 2], F), np.array([4, 8], F)], {}),
    ("Mod", [np.array([-7, 7], I), np.array([3, 3], I)], {}),
    ("Mod", [np.array([-7, 7], F), np.array([3, 3], F)], {"fmod": 1}),
    ("Max", [np.array([1, 5], I), np.array([4, 2], I), np.array([3, 3], I)], {}),
    ("Pow", [np.array([2, 3], F), np.array([3, 2], I)], {}),
    ("Concat", [np.array([1], I), np.array([2, 3], I)], {"axis": 0}),
    ("Gather", [np.array([5, 6, 7], I), np.array([-1, 0], I)], {"axis": 0}),
    ("GatherND", [np.arange(6, dtype=I).reshape(2, 3), np.array([[1, 2], [0, 1]], I)], {}),
    ("Slice", [np.arange(9, dtype=I), *(np.array([v], I) for v in (7, -99, 0, -2))], {}),
    ("Slice", [np.arange(9, dtype=I), *(np.array([v], I) for v in (2, 99))], {}),
    ("Reshape", [np.arange(6, dtype=I).reshape(2, 3), np.array([0, -1], I)], {}),
    ("Squeeze", [np.ones((1, 2, 1), I), np.array([0], I)], {}),
    ("Unsqueeze", [np.ones(2, I), np.array([0, 2], I)], {}),
    ("Expand", [np.ones((2, 1), I), np.array([2, 3], I)], {}),
    ("Range", [np.array(1, I), np.array(9, I), np.array(3, I)], {}),
    ("ConstantOfShape", [np.array([2, 2], I)], {}),
    ("Transpose", [np.arange(6, dtype=I).reshape(2, 3)], {"perm": [1, 0]}),
    ("Where", [np.array([True, False]), np.array([1, 2], I), np.array([3, 4], I)], {}),
    ("ReduceProd", [np.array([[2, 3]], I), np.array([1], I)], {"keepdims": 0}),
    ("CumSum", [np.array([1, 2, 3], I), np.array(0, I)], {}),
    ("CumSum", [np.array([1, 2, 3], I), np.array(0, I)], {"reverse": 1, "exclusive": 1}),
    ("Cast", [np.array([1.7, -1.7], F)], {"to": onnx.TensorProto.INT64}),
    ("Cast", [np.array([1.7, -1.7], F)], {"to": onnx.TensorProto.BFLOAT16}),
    ("CastLike", [np.array([1.7, -1.7], F), np.array(0, I)], {}),
    ("NonZero", [np.array([[1, 0], [3, 4]], I)], {}),
    ("ScatterElements", [np.zeros(4, I), np.array([2, -4]), np.array([5, 6], I)], {"axis": 0}),
    ("GatherND", [np.arange(6, dtype=I).reshape(2, 3), np.array([[1], [0]], I)], {"batch_dims": 1}),
    ("ReduceMax", [np.array([[2, 3]], I)], {"noop_with_empty_axes": 1}),
    ("Tile", [np.array([1, 2], I), np.array([2], I)], {}),
    ("Relu", [np.array([-1, 2], F)], {}),
    ("Range", [np.array(0, F), np.array(1, F), np.array(0.1, F)], {}),
    ("Mod", [np.array([-7, 7], np.int32), np.array([3, -3], np.int32)], {}),
    ("Less", [np.array([1, 5], I), np.array([3], I)], {}),
)


def model_of(
    kind: str, operands: Sequence[Array], attributes: Mapping[str, Any]
) -> onnx.ModelProto:
    """One operator of constants."""
    names = [f"x{i}" for i in range(len(operands))]
    node = helper.make_node(kind, names, ["y"], **attributes)
    outputs = [onnx.ValueInfoProto(name="y")]
    constants = [numpy_helper.from_array(a, n) for n, a in zip(names, operands, strict=True)]
    graph = onnx.GraphProto(name="g", node=[node], initializer=constants, output=outputs)
    opset = onnx.OperatorSetIdProto(domain="", version=24)
    return onnx.ModelProto(ir_version=10, graph=graph, opset_import=[opset])


def evaluate(kind: str, operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    """What import knows of the result."""
    model = model_of(kind, operands, attributes)
    inference = ShapeInference(model, {}, trained=frozenset())
    try:
        inference.visit(model.graph.node[0])
    except ModelError:
        return None
    return inference.facts.value.get("y")


def by_reference(kind: str, operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    """The result of one operator by ONNX's reference evaluator."""
    (found,) = ReferenceEvaluator(model_of(kind, operands, attributes)).run(None, {})
    return np.asarray(found)


@pytest.mark.parametrize(("kind", "operands", "attributes"), CASES, ids=[c[0] for c in CASES])
def test_constants_are_computed_as_onnx_does(
    kind: str, operands: list[Array], attributes: dict[str, object]
) -> None:
    found = evaluate(kind, operands, attributes)
    wanted = by_reference(kind, operands, attributes)
    assert found is not None
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype


@pytest.mark.parametrize(
    ("kind", "operands", "attributes"),
    [
        ("Add", [np.ones(MAX_ELEMENTS, I), np.ones((MAX_ELEMENTS, 1), I)], {}),
        ("Gather", [np.ones(MAX_ELEMENTS, I), np.ones((9, 9), I)], {"axis": 5}),
        ("Gather", [np.ones((1, 60000), I), np.zeros(60000, I)], {"axis": 0}),
        ("ConstantOfShape", [np.array([2**31, 2**31, 2**31], I)], {}),
        ("Expand", [np.ones(1, I), np.array([2**40], I)], {}),
        ("Range", [np.array(0.0, F), np.array(np.inf, F), np.array(1.0, F)], {}),
        ("Range", [np.array(0, I), np.array(5, I), np.array(0, I)], {}),
        ("RandomNormalLike", [np.ones(3, F)], {}),
        ("Dropout", [np.ones(3, F)], {}),
        ("Cast", [np.ones(3, I)], {"to": 99}),
        ("Reshape", [np.ones(3, I), np.array([2, 2], I)], {}),
        ("Slice", [np.ones(3, I), np.array([0], I), np.ones(0, I)], {}),
        ("Add", [np.ones(3, I)], {}),
        ("Unique", [np.ones(3, I)], {}),
    ],
)
def test_what_is_too_large_or_does_not_fit_is_unknown(
    kind: str, operands: list[Array], attributes: dict[str, object]
) -> None:
    assert evaluate(kind, operands, attributes) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("batch", 3),
        ("batch*seq", 15),
        ("Max(batch, seq)", 5),
        ("(seq + 3)//batch", 2),
        ("seq % batch", 2),
        ("other", None),
        ("batch/seq", None),
        ("batch**seq", 243),
        ("batch**9", None),
        ("batch < seq", None),
        ("FloorDiv(seq, 2)*batch", 6),
        ("batch//0", None),
        ("__import__('os')", None),
        ("batch.real", None),
        ("True", None),
        ("(" * 500, None),
        ("1+" * 5000 + "1", None),
        ("a\0b", None),
        ("", None),
    ],
)
def test_noted_dimensions_are_arithmetic_and_nothing_else(text: str, size: int | None) -> None:
    assert evaluate_dimension(text, {"batch": 3, "seq": 5}) == size
