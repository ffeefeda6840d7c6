"""Normalisations, losses and recurrent networks keep everything that is needed to run them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from executors.evaluation import Evaluator, working_dtype
from ir.graph import OpGraph
from tests.importers.onnx_models import graph, imported, kinds, value

pytestmark = pytest.mark.fast

Array = NDArray[Any]
MICROSOFT = "com.microsoft::"
RANDOM = np.random.default_rng(0)


def real(*dims: int) -> Array:
    return RANDOM.uniform(-1, 1, dims).astype(np.float32)


def read(
    folder: Path,
    kind: str,
    operands: Sequence[Array | None],
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    **attributes: Any,
) -> OpGraph:
    """The graph of one node, of whose outputs the named ones are wanted."""
    domain, _, kind = kind.rpartition("::")
    names = ["" if a is None else f"x{i}" for i, a in enumerate(operands)]
    made = helper.make_node(kind, names, list(outputs), domain=domain, **attributes)
    inputs = [
        value(n, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype))
        for n, a in zip(names, operands, strict=True)
        if a is not None
    ]
    results = [onnx.ValueInfoProto(name=n) for n in outputs if n]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return imported(
        folder, helper.make_model(graph([made], inputs, results), opset_imports=imports)
    )


def run(found: OpGraph, operands: Sequence[Array | None]) -> list[Array]:
    """What the imported operators compute."""
    known = {
        f"x{i}": a.astype(working_dtype(a.dtype.name))
        for i, a in enumerate(operands)
        if a is not None
    }
    for op in found.ops:
        results = [found.tensors[n] for n in op.outputs]
        given = [known[n] if n else None for n in op.inputs]
        arrays = Evaluator().run(op, given, results, [t.dims for t in results])
        known.update(zip(op.outputs, arrays, strict=True))
    return [known[n] for n in found.outputs]


def check(found: OpGraph, operands: Sequence[Array | None], *wanted: Array) -> None:
    for tensor, array, right in zip(found.outputs, run(found, operands), wanted, strict=True):
        assert found.tensors[tensor].dims == right.shape
        np.testing.assert_allclose(array, right, rtol=1e-4, atol=1e-5)


def normal(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + epsilon))


def test_a_skip_and_a_bias_are_added_before_a_layer_normalisation(tmp_path: Path) -> None:
    operands = [real(2, 3, 4), real(1, 3, 4), real(4), real(4), real(4)]
    x, skip, scale, bias, before = operands
    found = read(
        tmp_path,
        MICROSOFT + "SkipLayerNormalization",
        operands,
        ["y", "", "", "s"],
        epsilon=0.25,
    )
    assert kinds(found) == ["Add", "Add", "LayerNormalization"]
    total = x + skip + before
    check(found, operands, normal(total, (2,), 0.25) * scale + bias, total)


def test_a_skip_is_added_before_a_root_mean_square_normalisation(tmp_path: Path) -> None:
    operands = [real(2, 3, 4), real(2, 3, 4), real(4)]
    found = read(
        tmp_path,
        MICROSOFT + "SkipSimplifiedLayerNormalization",
        operands,
        epsilon=0.25,
    )
    assert kinds(found) == ["Add", "RMSNormalization"]
    total = operands[0] + operands[1]
    root = np.sqrt((total**2).mean(axis=2, keepdims=True) + 0.25)
    check(found, operands, total / root * operands[2])


@pytest.mark.parametrize("numbered", [False, True])
def test_embeddings_are_looked_up_added_and_normalised(tmp_path: Path, numbered: bool) -> None:
    ids, segments = RANDOM.integers(0, 5, (2, 3)), RANDOM.integers(0, 2, (2, 3))
    numbers = RANDOM.integers(0, 6, (2, 3))
    tables = [real(5, 4), real(6, 4), real(2, 4)]
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    scale, bias = real(4), real(4)
    operands = [ids, segments, *tables, scale, bias, mask, *([numbers] if numbered else [])]
    found = read(
        tmp_path,
        MICROSOFT + "EmbedLayerNormalization",
        operands,
        ["y", "m", "s"],
        epsilon=0.25,
    )
    places = tables[1][numbers] if numbered else tables[1][:3]
    total = tables[0][ids] + places + tables[2][segments]
    wanted = normal(total, (2,), 0.25) * scale + bias
    check(found, operands, wanted, np.array([2, 3]), total)


@pytest.mark.parametrize("last", [0, 1])
def test_groups_of_the_last_dimension_are_normalised_and_activated(
    tmp_path: Path, last: int
) -> None:
    x, skip = real(2, 6, 3, 5), real(2, 6)
    placed = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x, real(6), real(6)]
    operands = [*placed, skip, real(6)]
    found = read(
        tmp_path, MICROSOFT + "SkipGroupNorm", operands, ["y", "s"], groups=3, epsilon=0.25,
        activation=1, channels_last=last,
    )  # fmt: skip

    def along(vector: Array) -> Array:
        return vector.reshape(-1, 6, 1, 1)

    total = x + along(skip) + along(operands[4])
    wanted = normal(total.reshape(2, 3, -1), (2,), 0.25).reshape(x.shape)
    wanted = wanted * along(operands[1]) + along(operands[2])
    wanted = wanted / (1 + np.exp(-wanted))
    back = (0, 2, 3, 1) if last else (0, 1, 2, 3)
    check(found, operands, wanted.transpose(back), total.transpose(back))


def test_a_bias_before_softmax_is_an_addition(tmp_path: Path) -> None:
    operands = [real(2, 3, 4), real(1, 3, 4)]
    found = read(
        tmp_path,
        MICROSOFT + "BiasSoftmax",
        operands,
        axis=1,
        is_inner_broadcast=0,
    )
    powers = np.exp(operands[0] + operands[1])
    check(found, operands, powers / powers.sum(axis=(1, 2), keepdims=True))


def test_a_batch_normalisation_in_training_keeps_its_running_statistics(tmp_path: Path) -> None:
    operands = [real(2, 3, 4, 4), *(real(3) for _ in range(4))]
    found = read(
        tmp_path, "BatchNormalization", operands, ["y", "m", "v"], training_mode=1, momentum=0.5
    )
    assert found.ops[0].attributes["training_mode"] == 1
    x, scale, bias, mean, variance = operands
    shape = (1, 3, 1, 1)
    wanted = normal(x, (0, 2, 3), 1e-5) * scale.reshape(shape) + bias.reshape(shape)
    own = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
    check(found, operands, wanted, mean / 2 + own[0] / 2, variance / 2 + own[1] / 2)


def test_local_response_keeps_its_bias(tmp_path: Path) -> None:
    x = real(1, 3, 2, 2)
    found = read(tmp_path, "LRN", [x], size=3, alpha=3.0, beta=1.0, bias=2.0)
    squares = np.pad(x**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    check(found, [x], x / (2 + squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]))


def test_a_loss_keeps_what_it_ignores(tmp_path: Path) -> None:
    operands = [real(3, 4), np.array([0, 2, 1])]
    found = read(tmp_path, "SoftmaxCrossEntropyLoss", operands, ignore_index=0, reduction="sum")
    assert found.ops[0].attributes == {"ignore_index": 0, "reduction": "sum"}
    logs = operands[0] - np.log(np.exp(operands[0]).sum(axis=1, keepdims=True))
    check(found, operands, np.asarray(-logs[1, 2] - logs[2, 1]))


def test_a_recurrent_network_keeps_its_functions(tmp_path: Path) -> None:
    operands = [real(3, 2, 4), real(1, 20, 4), real(1, 20, 5)]
    marks: dict[str, Any] = {"hidden_size": 5, "direction": "reverse", "clip": 0.5}
    usual = read(
        tmp_path, "LSTM", operands, ["", "h"], activations=["Sigmoid", "Tanh", "Tanh"], **marks
    )
    assert usual.ops[0].attributes == marks
    assert [usual.tensors[n].dims for n in usual.ops[0].outputs] == [(3, 1, 2, 5), (1, 2, 5)]
    other = read(tmp_path, "LSTM", operands, activations=["Relu", "Tanh", "Tanh"], **marks)
    assert other.ops[0].attributes["activations"] == ("relu", "tanh", "tanh")


def test_a_stored_network_is_trained(tmp_path: Path) -> None:
    weights = {"w": real(1, 5, 4), "r": real(1, 5, 5)}
    made = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=5)
    tensors = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    body = graph([made], [value("x", (3, 2, 4))], [onnx.ValueInfoProto(name="y")], tensors)
    found = imported(tmp_path, helper.make_model(body, opset_imports=[helper.make_opsetid("", 14)]))
    assert {t.name for t in found.parameters} == set(weights)


def test_the_tables_of_a_fused_embedding_are_trained(tmp_path: Path) -> None:
    names, dims = (
        ("words", "places", "kinds", "scale", "bias"),
        ((5, 4), (3, 4), (2, 4), (4,), (4,)),
    )
    made = helper.make_node(
        "EmbedLayerNormalization", ["ids", "types", *names], ["y"], domain="com.microsoft"
    )
    tensors = [numpy_helper.from_array(real(*d), n) for n, d in zip(names, dims, strict=True)]
    inputs = [value(n, (2, 3), onnx.TensorProto.INT32) for n in ("ids", "types")]
    body = graph([made], inputs, [onnx.ValueInfoProto(name="y")], tensors)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    found = imported(tmp_path, helper.make_model(body, opset_imports=imports))
    assert {t.name for t in found.parameters} == set(names)
