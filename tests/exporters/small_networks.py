"""Networks in which every primitive that matters reads a parameter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ir.graph import OpGraph, Role
from tests.builders import GraphBuilder


def language_model() -> OpGraph:
    """Embedding, layer norm, linear layers stored as `nn.Linear` does, RMS normalisation."""
    batch, rows, width, hidden, words = 16, 32, 64, 128, 512
    build = GraphBuilder("language_model")
    ids = build.input("ids", (batch, rows), "int64")
    table = build.weight("embed.weight", (words, width))
    x = build.op("Gather", (table, ids), (batch, rows, width), axis=0)
    scale, shift = build.weight("norm.weight", (width,)), build.weight("norm.bias", (width,))
    y = build.op("LayerNormalization", (x, scale, shift), (batch, rows, width), axis=2)
    up = build.weight("up.weight", (hidden, width))
    y = build.op("MatMul", (y, up), (batch, rows, hidden), trans_b=1)
    y = build.op("Add", (y, build.weight("up.bias", (hidden,))), (batch, rows, hidden))
    y = build.op("Gelu", (y,), (batch, rows, hidden))
    down = build.weight("down.weight", (width, hidden))
    y = build.op("MatMul", (y, down), (batch, rows, width), trans_b=1)
    x = build.op("Add", (x, y), (batch, rows, width))
    x = _root_mean_square(build, x, (batch, rows, width))
    head = build.weight("head.weight", (words, width))
    return build.build(build.op("MatMul", (x, head), (batch, rows, words), trans_b=1))


def _root_mean_square(build: GraphBuilder, x: str, dims: tuple[int, ...]) -> str:
    """RMS normalisation as exporters write it, with the weight first."""
    two = build.tensor("two", (), Role.CONSTANT)
    square = build.op("Pow", (x, two), dims)
    mean = build.op("ReduceMean", (square,), (*dims[:-1], 1), axes=(len(dims) - 1,))
    root = build.op("Sqrt", (mean,), (*dims[:-1], 1))
    scaled = build.op("Div", (x, root), dims)
    return build.op("Mul", (build.weight("final.weight", dims[-1:]), scaled), dims)


def twisted_model() -> OpGraph:
    """Two products and between them an operator that the catalogue lacks, with a given rule."""
    rows, width, hidden = 16, 128, 256
    build = GraphBuilder("twisted_model")
    x = build.input("x", (rows, width))
    x = build.op("MatMul", (x, build.weight("up.weight", (width, hidden))), (rows, hidden))
    x = build.op("custom::Twist", (x,), (rows, hidden), sharding_rule="b s -> b s")
    down = build.weight("down.weight", (hidden, width))
    return build.build(build.op("MatMul", (x, down), (rows, width)))


def image_model() -> OpGraph:
    """Convolutions with bias or batch normalisation, a pooled linear layer."""
    batch, colours, width, side = 16, 8, 32, 8
    build = GraphBuilder("image_model")
    x = build.input("x", (batch, colours, side, side))
    first = build.weight("stem.weight", (width, colours, 3, 3))
    x = build.op("Conv", (x, first), (batch, width, side, side), pads=(1, 1, 1, 1))
    x = build.op(
        "BiasAdd", (x, build.weight("stem.bias", (width,))), (batch, width, side, side), axis=1
    )
    second = build.weight("conv.weight", (width, width, 1, 1))
    x = build.op("Conv", (x, second), (batch, width, side, side))
    vectors = [build.weight(f"bn.{n}", (width,)) for n in ("weight", "bias")]
    vectors += [build.tensor(f"bn.{n}", (width,), Role.BUFFER) for n in ("mean", "var")]
    x = build.op("BatchNormalization", (x, *vectors), (batch, width, side, side))
    x = build.op("PRelu", (x, build.weight("slope", (width, 1, 1))), (batch, width, side, side))
    x = build.op("GlobalAveragePool", (x,), (batch, width, 1, 1))
    x = build.op("Flatten", (x,), (batch, width))
    return build.build(build.op("MatMul", (x, build.weight("fc", (width, 64))), (batch, 64)))


def expert_model() -> OpGraph:
    """Tokens in the slots of their experts, and one product for each expert."""
    experts, slots, width, hidden = 8, 16, 64, 128
    build = GraphBuilder("expert_model")
    x = build.input("x", (experts, slots, width, 1))
    up = build.weight("up", (experts, hidden, width))
    return build.build(build.op("ExpertMatMul", (x, up), (experts, slots, hidden, 1)))


def stored_otherwise() -> OpGraph:
    """A table of 64 rows and 256 columns that the model file holds as 256 rows."""
    build = GraphBuilder("stored_otherwise")
    ids = build.input("ids", (32,), "int64")
    x = build.op("Gather", (build.weight("t", (64, 256)), ids), (32, 256), axis=0)
    graph = build.build(build.op("MatMul", (x, build.weight("w", (256, 64))), (32, 64)))
    table = replace(graph.tensors["t"], source="embedding.kernel", stored_permutation=(1, 0))
    return replace(graph, tensors={**graph.tensors, "t": table})


def tied() -> OpGraph:
    """Embedding and output product share one table."""
    build = GraphBuilder("tied")
    ids = build.input("ids", (16, 8), "int64")
    table = build.weight("table", (128, 64))
    x = build.op("Gather", (table, ids), (16, 8, 64), axis=0)
    return build.build(build.op("MatMul", (x, table), (16, 8, 128), trans_b=1))


def perceptron(names: tuple[str, ...], dims: tuple[tuple[int, int], ...], batch: int) -> OpGraph:
    """Products with these weights, stored rows first, and an activation between them."""
    build = GraphBuilder("perceptron")
    x = build.input("x", (batch, dims[0][0]))
    for index, (name, shape) in enumerate(zip(names, dims, strict=True)):
        x = build.op("Relu", (x,), (batch, shape[0])) if index else x
        x = build.op("MatMul", (x, build.weight(name, shape)), (batch, shape[1]), name=f"p.{name}")
    return build.build(x)


def wide_perceptron() -> OpGraph:
    """Layers so wide for their batch that cutting the weights pays."""
    names = ("layers.0.weight", "layers.1.weight", "layers.2.weight")
    return perceptron(names, ((128, 512), (512, 512), (512, 128)), batch=16)


def write_onnx_mlp(path: Path, batch: int = 32, width: int = 64, layers: int = 3) -> None:
    """An ONNX file as exporters write linear layers: a transposed weight, a product, a bias."""
    nodes, weights, x = [], [], "x"
    for i in range(layers):
        weights.append(_weight(f"fc{i}.weight", (width, width)))
        weights.append(_weight(f"fc{i}.bias", (width,)))
        nodes.append(helper.make_node("Transpose", [f"fc{i}.weight"], [f"t{i}"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", [x, f"t{i}"], [f"p{i}"]))
        nodes.append(helper.make_node("Add", [f"p{i}", f"fc{i}.bias"], [f"y{i}"]))
        nodes.append(helper.make_node("Relu", [f"y{i}"], [f"z{i}"]))
        x = f"z{i}"
    dims = [batch, 8, width]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n in ("x", x)]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)


def _weight(name: str, dims: tuple[int, ...]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.zeros(dims, np.float32), name)
