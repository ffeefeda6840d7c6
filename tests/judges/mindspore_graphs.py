"""A dozen graphs that MindSpore judges; `tests.judges.mindspore_nets` has them as cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ir.graph import OpGraph, Role
from tests.builders import GraphBuilder


def perceptron() -> OpGraph:
    build = GraphBuilder("perceptron")
    x = build.input("x", (64, 256))
    for layer, (size, out) in enumerate(((256, 1024), (1024, 256), (256, 512))):
        x = build.op("Relu", (x,), (64, size)) if layer else x
        x = _dense(build, x, f"fc{layer}", out)
    return build.build(x)


def attention() -> OpGraph:
    """Heads apart, query, key and value of one tensor, and the residual addition."""
    batch, rows, heads, width = 8, 32, 8, 16
    size, whole = heads * width, (batch, heads, rows, width)
    build = GraphBuilder("attention")
    x = build.input("x", (batch, rows, size))
    start = _dense(build, x, "first", size)
    parts = []
    for name in ("q", "k", "v"):
        y = build.op("Reshape", (_dense(build, start, name, size),), (batch, rows, heads, width))
        parts.append(build.op("Transpose", (y,), whole, perm=(0, 2, 1, 3)))
    scores = build.op(
        "MatMul", (parts[0], parts[1]), (batch, heads, rows, rows), trans_b=1, name="scores"
    )
    scores = build.op("Softmax", (scores,), (batch, heads, rows, rows), axis=3)
    y = build.op("MatMul", (scores, parts[2]), whole, name="mixed")
    y = build.op("Transpose", (y,), (batch, rows, heads, width), perm=(0, 2, 1, 3))
    y = _dense(build, build.op("Reshape", (y,), (batch, rows, size)), "o", size)
    return build.build(build.op("Add", (start, y), (batch, rows, size)))


def residual_convolutions() -> OpGraph:
    """The block of a residual network, its shortcut projected."""
    build = GraphBuilder("residual_convolutions")
    x = build.input("x", (16, 16, 8, 8))
    y = build.op("Relu", (_convolved(build, x, "first", 32, 3),), (16, 32, 8, 8))
    y = _convolved(build, y, "second", 32, 3)
    short = _convolved(build, x, "short", 32, 1)
    y = build.op("Add", (y, short), (16, 32, 8, 8))
    return build.build(build.op("Relu", (y,), (16, 32, 8, 8)))


def tied_embedding() -> OpGraph:
    """Rows of a table are looked up, and multiplied by the same table."""
    build = GraphBuilder("tied_embedding")
    ids = build.input("ids", (64,), "int32")
    table = build.weight("table", (256, 64))
    x = build.op("Gather", (table, ids), (64, 64), axis=0)
    x = build.op("Tanh", (x,), (64, 64))
    return build.build(build.op("MatMul", (x, table), (64, 256), trans_b=1, name="logits"))


def class_loss() -> OpGraph:
    """Cross-entropy of small operators, so that the classes may be cut."""
    build = GraphBuilder("class_loss")
    dims = (64, 256)
    x = _dense(build, build.input("x", (64, 128)), "fc", 256)
    label = build.input("label", dims)
    top = build.op("ReduceMax", (x,), (64, 1), name="top", axes=(1,))
    power = build.op("Exp", (build.op("Sub", (x, top), dims),), dims)
    total = build.op("ReduceSum", (power,), (64, 1), axes=(1,))
    likely = build.op("Log", (build.op("Div", (power, total), dims),), dims)
    hit = build.op("Mul", (likely, label), dims)
    loss = build.op("Neg", (build.op("ReduceSum", (hit,), (64,), axes=(1,)),), (64,))
    return build.build(build.op("ReduceMean", (loss,), (), axes=(0,)))


def mismatched_edges() -> OpGraph:
    """Dimensions change places between operators, so that cuts rarely meet."""
    build = GraphBuilder("mismatched_edges")
    x = build.input("x", (32, 64, 16))
    x = build.op("Mul", (x, build.weight("scale", (32, 64, 16))), (32, 64, 16))
    x = build.op("Transpose", (x,), (16, 32, 64), perm=(2, 0, 1))
    x = build.op("Tanh", (x,), (16, 32, 64))
    x = build.op("Transpose", (x,), (64, 32, 16), perm=(2, 1, 0))
    x = build.op("Softmax", (x,), (64, 32, 16), axis=2)
    return build.build(build.op("Sqrt", (x,), (64, 32, 16)))


def repeated_work() -> OpGraph:
    """Sizes so small that operators are repeated on some of the devices."""
    build = GraphBuilder("repeated_work")
    x = build.input("x", (4, 6))
    x = build.op("Relu", (_dense(build, x, "up", 10),), (4, 10))
    x = build.op("Sigmoid", (_dense(build, x, "down", 4),), (4, 4))
    return build.build(_dense(build, x, "last", 12))


def convolutions() -> OpGraph:
    build = GraphBuilder("convolutions")
    x = build.input("x", (16, 8, 16, 16))
    first = build.weight("first", (32, 8, 3, 3))
    x = build.op("Conv", (x, first), (16, 32, 16, 16), kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    x = build.op("Relu", (x,), (16, 32, 16, 16))
    x = build.op("MaxPool", (x,), (16, 32, 8, 8), kernel_shape=(2, 2), strides=(2, 2))
    second = build.weight("second", (64, 32, 1, 1))
    x = build.op("Conv", (x, second), (16, 64, 8, 8), kernel_shape=(1, 1))
    x = build.op("AveragePool", (x,), (16, 64, 4, 4), kernel_shape=(2, 2), strides=(2, 2))
    x = build.op("GlobalAveragePool", (x,), (16, 64, 1, 1))
    x = build.op("Squeeze", (x,), (16, 64), axes=(2, 3))
    return build.build(_dense(build, x, "fc", 128))


def normalised_block() -> OpGraph:
    """A layer normalisation, two products with bias, the residual addition, RMS normalisation."""
    build = GraphBuilder("normalised_block")
    rows, width, hidden = 64, 64, 256
    x = _dense(build, build.input("x", (rows, width)), "first", width)
    scale, shift = (build.weight(f"norm.{n}", (width,)) for n in ("scale", "shift"))
    y = build.op("LayerNormalization", (x, scale, shift), (rows, width), axis=1)
    y = _dense(build, y, "up", hidden, bias=True)
    y = build.op("Gelu", (y,), (rows, hidden))
    x = build.op("Add", (x, _dense(build, y, "down", width, bias=True)), (rows, width))
    return build.build(
        build.op("RMSNormalization", (x, build.weight("last", (width,))), (rows, width), axis=1)
    )


def residual_additions() -> OpGraph:
    """A tensor with several readers, again and again."""
    build = GraphBuilder("residual_additions")
    x = _dense(build, build.input("x", (32, 64)), "first", 64)
    for layer in range(2):
        y = build.op("Sigmoid", (x,), (32, 64))
        z = _dense(build, x, f"branch{layer}", 64)
        y = build.op("Mul", (y, z), (32, 64))
        x = build.op("Sub", (x, y), (32, 64))
    return build.build(x)


def embedded_perceptron() -> OpGraph:
    build = GraphBuilder("embedded_perceptron")
    ids = build.input("ids", (64,), "int32")
    x = build.op("Gather", (build.weight("table", (512, 64)), ids), (64, 64), axis=0)
    x = build.op("Swish", (_dense(build, x, "up", 256),), (64, 256))
    return build.build(_dense(build, x, "down", 64))


def product_chain() -> OpGraph:
    """Products of batches of matrices."""
    build = GraphBuilder("product_chain")
    x = build.input("x", (8, 16, 32))
    x = build.op("MatMul", (x, build.weight("a", (8, 32, 64))), (8, 16, 64))
    x = build.op("Exp", (x,), (8, 16, 64))
    x = build.op("MatMul", (x, build.weight("b", (8, 32, 64))), (8, 16, 32), trans_b=1)
    x = build.op("Transpose", (x,), (8, 32, 16), perm=(0, 2, 1))
    mean = build.op("ReduceMean", (x,), (8, 32, 1), axes=(2,))
    x = build.op("Sub", (x, mean), (8, 32, 16))
    return build.build(build.op("MatMul", (x, build.weight("c", (8, 16, 16))), (8, 32, 16)))


def _dense(build: GraphBuilder, x: str, name: str, out: int, *, bias: bool = False) -> str:
    *rows, size = build.tensors[x].dims
    y = build.op("MatMul", (x, build.weight(f"{name}.w", (size, out))), (*rows, out), name=name)
    return build.op("Add", (y, build.weight(f"{name}.b", (out,))), (*rows, out)) if bias else y


def _convolved(build: GraphBuilder, x: str, name: str, out: int, kernel: int) -> str:
    """A convolution that keeps the size, and its batch normalisation."""
    batch, channels, *places = build.tensors[x].dims
    dims, pad = (batch, out, *places), kernel // 2
    weight = build.weight(f"{name}.w", (out, channels, kernel, kernel))
    y = build.op("Conv", (x, weight), dims, kernel_shape=(kernel,) * 2, pads=(pad,) * 4)
    vectors = [build.weight(f"{name}.{n}", (out,)) for n in ("scale", "shift")]
    vectors += [build.tensor(f"{name}.{n}", (out,), Role.BUFFER) for n in ("mean", "variance")]
    return build.op("BatchNormalization", (y, *vectors), dims)


GRAPHS: Mapping[str, Callable[[], OpGraph]] = {
    make.__name__: make
    for make in (
        perceptron, attention, residual_convolutions, tied_embedding, class_loss, mismatched_edges,
        repeated_work, convolutions, normalised_block, residual_additions, embedded_perceptron,
        product_chain,
    )
}  # fmt: skip
