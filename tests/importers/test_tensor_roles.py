"""What tensors are: inputs, parameters, buffers, constants, gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from ir.graph import Role
from tests.importers.onnx_models import imported, model, node, stored, weight

pytestmark = pytest.mark.fast


def test_weights_statistics_and_constants_are_told_apart(tmp_path: Path) -> None:
    made = model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
            node("Mul", ["n", "half"], ["y"]),
        ],
        {"x": [2, 4, 8, 8]},
        {"y": None},
        [
            weight("w", 4, 4, 3, 3),
            *[weight(n, 4) for n in ("scale", "shift", "mean", "var")],
            stored("half", 0.5),
        ],
    )
    roles = {n: t.role for n, t in imported(tmp_path, made).tensors.items()}
    assert {n for n, r in roles.items() if r is Role.PARAMETER} == {"w", "scale", "shift"}
    assert {n for n, r in roles.items() if r is Role.BUFFER} == {"mean", "var"}
    assert roles["half"] is Role.CONSTANT
    assert roles["x"] is Role.INPUT


def test_a_tied_weight_is_one_tensor(tmp_path: Path) -> None:
    made = model(
        [
            node("Gather", ["table", "ids"], ["e"]),
            node("Transpose", ["table"], ["t"], perm=[1, 0]),
            node("MatMul", ["e", "t"], ["y"]),
        ],
        {"ids": [2, 4]},
        {"y": None},
        [weight("table", 100, 8)],
        integers=["ids"],
    )
    found = imported(tmp_path, made)
    assert [(t.name, t.dims) for t in found.parameters] == [("table", (100, 8))]


def test_a_weight_stored_in_a_node_is_a_parameter(tmp_path: Path) -> None:
    made = model(
        [
            node("Constant", [], ["w"], value=weight("", 300, 300)),
            node("Constant", [], ["mask"], value=weight("", 300, 300)),
            node("MatMul", ["x", "w"], ["h"]),
            node("Add", ["h", "mask"], ["y"]),
        ],
        {"x": [300, 300]},
        {"y": None},
    )
    found = imported(tmp_path, made)
    assert [t.name for t in found.parameters] == ["w"]
    assert found.tensors["mask"].role is Role.CONSTANT


def test_a_sparse_weight_counts_as_the_dense_one(tmp_path: Path) -> None:
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": [2, 30]}, {"y": None})
    sparse = onnx.SparseTensorProto(dims=[30, 40])
    sparse.values.CopyFrom(stored("w", np.ones(3, np.float32)))
    sparse.indices.CopyFrom(stored("", [1, 2, 3]))
    made.graph.sparse_initializer.append(sparse)
    found = imported(tmp_path, made)
    assert [(t.name, t.dims) for t in found.parameters] == [("w", (30, 40))]


def test_a_traced_training_step_knows_its_gradients(tmp_path: Path) -> None:
    made = model(
        [
            node("MatMul", ["x", "w"], ["y"]),
            node("Transpose", ["x"], ["xt"], perm=[1, 0]),
            node("MatMul", ["xt", "y"], ["grad.w"]),
        ],
        {"x": [2, 8], "w": [8, 4]},
        {"y": None, "grad.w": [8, 4]},
    )
    found = imported(tmp_path, made)
    assert found.is_training_step
    assert found.gradients == {"w": "grad.w"}
    assert found.inputs == ("x",)
