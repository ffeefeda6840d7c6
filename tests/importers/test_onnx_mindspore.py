"""A network that MindSpore exported as ONNX and as MindIR, with two layers that are alike."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

import pytest
from onnx import parser

from importers.mindir.reading import import_mindir
from importers.onnx import import_onnx
from ir.file_primitives import FilePrimitive, cell_path
from ir.graph import OpGraph

DATA = Path(__file__).parents[1] / "data" / "mindspore_networks"


@functools.cache
def graph(suffix: str) -> OpGraph:
    read = import_onnx if suffix == "onnx" else import_mindir
    return read(DATA / f"encoder.{suffix}")


def listed(suffix: str) -> Counter[tuple[str, str, tuple[tuple[int, ...], ...]]]:
    return Counter((_cell(p), p.kind, p.operands) for p in graph(suffix).primitives)


def _cell(primitive: FilePrimitive) -> str:
    path = cell_path(primitive.name)
    # A tied product reads the parameter of another cell, and its name has none of its own.
    tied = primitive.kind == "MatMul" and path == "embedding"
    return "" if tied else path


@pytest.mark.fast
def test_both_files_have_the_same_primitives_in_the_same_cells() -> None:
    ours, theirs = listed("onnx"), listed("mindir")
    shared = {("layers.1.attention", "Muls"), ("layers.1.gelu", "GeLU")}
    missing = {(cell, kind) for cell, kind, _ in ours - theirs}
    assert missing <= shared  # MindIR has these in the first layer: one function makes both
    assert sum(ours.values()) == sum(theirs.values())
    assert Counter(kind for _, kind, _ in ours) == Counter(kind for _, kind, _ in theirs)


def test_norms_and_activations_are_one_operator() -> None:
    kinds = Counter(op.kind for op in graph("onnx").ops)
    assert kinds["LayerNormalization"] == 5
    assert kinds["Gelu"] == 2
    assert not kinds["ReduceMean"] + kinds["Tanh"] + kinds["Pow"]


def test_biases_are_those_of_dense() -> None:
    biases = [p for p in graph("onnx").primitives if p.kind == "BiasAdd"]
    assert len(biases) == 12
    assert {p.makers[1].rpartition(".")[2] for p in biases} == {"bias"}


def test_operators_without_a_name_are_in_the_cell_of_their_neighbours() -> None:
    sums = [cell_path(p.name) for p in graph("onnx").primitives if p.kind == "Add"]
    assert sums == ["", "layers.0", "layers.0", "layers.1", "layers.1"]


def test_what_stands_between_operators_of_one_cell_is_in_it(tmp_path: Path) -> None:
    """The export writes `ExpandDims` as a reshape, and a product of two results without a name."""
    text = """<ir_version: 10, producer_name: "MindSpore", opset_import: ["": 11]>
    net (float[8, 16] x) => (float[1, 8, 16] y) <int64[3] dims = {1, 8, 16}> {
        one = Softmax<axis = 1>(x)
        two = Sigmoid(x)
        new = Reshape(two, dims)
        three = Mul(one, new)
        y = Softmax<axis = 2>(three)
    }"""
    names = {
        "one": "Softmax-op0",
        "two": "Sigmoid-op0",
        "new": "ExpandDims-op0",
        "y": "Softmax-op1",
    }
    model = parser.parse_model(text)
    renamed = {old: f"{n}-Default/own-Cell/{new}" for n, (old, new) in enumerate(names.items())}
    for node in model.graph.node:
        for ends in (node.input, node.output):
            ends[:] = [renamed.get(name, name) for name in ends]
    model.graph.output[0].name = renamed["y"]
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    found = {p.kind: p for p in import_onnx(path).primitives}
    assert {cell_path(p.name) for p in found.values()} == {"own"}
    assert found["ExpandDims"].operands == ((8, 16),)
    assert found["Mul"].operands == ((8, 16), (1, 8, 16))
    assert [op.attributes["axes"] for op in import_onnx(path).ops if op.kind == "Unsqueeze"] == [
        (0,)
    ]


def test_a_transposed_convolution_says_the_size_of_its_positions(tmp_path: Path) -> None:
    """MindSpore writes that of the whole result, which ONNX does not take."""
    text = """<ir_version: 10, producer_name: "MindSpore", opset_import: ["": 11]>
    net (float[2, 8, 4, 4] x) => (float[2, 4, 8, 8] y) <float[8, 4, 2, 2] grow.weight = {WEIGHT}> {
        y = ConvTranspose<kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER",
            output_shape=[2, 4, 8, 8]>(x, grow.weight)
    }""".replace("{WEIGHT}", "{" + ", ".join(["0.0"] * 128) + "}")
    model = parser.parse_model(text.replace("grow.weight", "grow_weight"))
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    (op,) = import_onnx(path).ops
    assert op.kind == "ConvTranspose"
    assert import_onnx(path).tensors[op.outputs[0]].dims == (2, 4, 8, 8)
