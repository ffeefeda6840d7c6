"""Models of the published cases."""

from __future__ import annotations

from ir.graph import OpGraph, Role
from tests.builders import GraphBuilder


def dense(
    build: GraphBuilder, x: str, name: str, out: int, *, bias: bool = True, act: str = ""
) -> str:
    """A product with a weight `{name}.w`, a bias `{name}.b` and an activation."""
    *rows, size = build.tensors[x].dims
    dims = (*rows, out)
    x = build.op("MatMul", (x, build.weight(f"{name}.w", (size, out))), dims, name=name)
    if bias:
        x = build.op("Add", (x, build.weight(f"{name}.b", (out,))), dims)
    return build.op(act, (x,), dims) if act else x


def squared_error(build: GraphBuilder, x: str) -> OpGraph:
    """The mean squared distance from a target that is an input."""
    dims = build.tensors[x].dims
    rest = build.op("Sub", (x, build.input("target", dims)), dims)
    square = build.op("Mul", (rest, rest), dims)
    return build.build(build.op("ReduceMean", (square,), (), axes=tuple(range(len(dims)))))


def perceptron(batch: int, hidden: int, layers: int = 6) -> OpGraph:
    """Alpa's test_mlp: equal layers with bias, ReLU between them."""
    build = GraphBuilder("mlp")
    x = build.input("x", (batch, hidden))
    for layer in range(layers):
        x = dense(build, x, f"layer{layer}", hidden, act="Relu" if layer < layers - 1 else "")
    return squared_error(build, x)


def normalised(build: GraphBuilder, x: str, name: str) -> str:
    dims = build.tensors[x].dims
    scale, bias = (build.weight(f"{name}.{p}", dims[-1:]) for p in ("scale", "shift"))
    return build.op("LayerNormalization", (x, scale, bias), dims, axis=len(dims) - 1)


def self_attention(
    build: GraphBuilder, x: str, name: str, heads: int, *, bias: bool = True, key_heads: int = 0
) -> str:
    """Query, key, value and output product around attention."""
    batch, rows, size = build.tensors[x].dims
    parts = []
    for part, count in (("q", heads), ("k", key_heads or heads), ("v", key_heads or heads)):
        y = dense(build, x, f"{name}.{part}", size // heads * count, bias=bias)
        y = build.op("Reshape", (y,), (batch, rows, count, size // heads))
        dims = (batch, count, rows, size // heads)
        parts.append(build.op("Transpose", (y,), dims, perm=(0, 2, 1, 3)))
    y = build.op("Attention", parts, (batch, heads, rows, size // heads), name=f"{name}.core")
    y = build.op("Transpose", (y,), (batch, rows, heads, size // heads), perm=(0, 2, 1, 3))
    y = build.op("Reshape", (y,), (batch, rows, size))
    return dense(build, y, f"{name}.o", size, bias=bias)


def encoder_layer(
    build: GraphBuilder, x: str, name: str, heads: int, ffn: int, *, bias: bool = True
) -> str:
    """A layer of BERT: attention and two products, each added and normalised."""
    dims = build.tensors[x].dims
    y = self_attention(build, x, f"{name}.attention", heads, bias=bias)
    x = normalised(build, build.op("Add", (x, y), dims, name=f"{name}.add0"), f"{name}.norm0")
    y = dense(build, x, f"{name}.up", ffn, act="Gelu", bias=bias)
    y = dense(build, y, f"{name}.down", dims[-1], bias=bias)
    return normalised(build, build.op("Add", (x, y), dims, name=f"{name}.add1"), f"{name}.norm1")


def bert(batch: int, rows: int, hidden: int, ffn: int, layers: int = 2, heads: int = 8) -> OpGraph:
    """Alpa's test_bert_layer: encoder layers on hidden states that are an input."""
    build = GraphBuilder("bert")
    x = build.input("x", (batch, rows, hidden))
    for layer in range(layers):
        x = encoder_layer(build, x, f"layer{layer}", heads, ffn)
    return squared_error(build, x)


def tied_embedding(batch: int, rows: int, vocabulary: int, hidden: int) -> OpGraph:
    """Rows of a table are looked up and multiplied by the same table."""
    build = GraphBuilder("tied")
    ids = build.input("ids", (batch, rows), "int64")
    table = build.weight("table", (vocabulary, hidden))
    x = build.op("Gather", (table, ids), (batch, rows, hidden), name="embedding", axis=0)
    turned = build.op("Transpose", (table,), (hidden, vocabulary), perm=(1, 0))
    return build.build(build.op("MatMul", (x, turned), (batch, rows, vocabulary), name="logits"))


def gshard(groups: int, size: int, experts: int, slots: int, hidden: int, ffn: int) -> OpGraph:
    """GShard's layer: tokens to the slots of experts and back, by products with masks."""
    build = GraphBuilder("moe")
    x = build.input("x", (groups, size, hidden))
    y = self_attention(build, x, "attention", 16)
    x = normalised(build, build.op("Add", (x, y), (groups, size, hidden)), "norm0")
    gates = dense(build, x, "gate", experts, bias=False)
    gates = build.op("Softmax", (gates,), (groups, size, experts), axis=2)
    gates = build.op("Unsqueeze", (gates,), (groups, size, experts, 1), axes=(3,))
    dims = (groups, size, experts, slots)
    mask = build.input("mask", dims)
    weights = build.op("Mul", (gates, mask), dims)
    y = build.op("Einsum", (mask, x), (experts, groups, slots, hidden), equation="gsec,gsm->egcm")
    inner, outer = (experts, groups, slots, ffn), (experts, groups, slots, hidden)
    wi, wo = build.weight("wi", (experts, hidden, ffn)), build.weight("wo", (experts, ffn, hidden))
    y = build.op("Einsum", (y, wi), inner, name="up", equation="egcm,emh->egch")
    y = build.op("Relu", (y,), inner)
    y = build.op("Einsum", (y, wo), outer, name="down", equation="egch,ehm->egcm")
    y = build.op("Einsum", (weights, y), (groups, size, hidden), equation="gsec,egcm->gsm")
    x = normalised(build, build.op("Add", (x, y), (groups, size, hidden)), "norm1")
    return squared_error(build, x)


def convolutions(layers: int, batch: int, image: int, channels: int) -> OpGraph:
    """Convolution with stride 2, batch normalisation, ReLU and pooling, again and again."""
    build = GraphBuilder("conv")
    x = build.input("x", (batch, channels, image, image))
    for layer in range(layers):
        image = max(image // 2, 1)
        dims = (batch, channels, image, image)
        weight = build.weight(f"conv{layer}.w", (channels, channels, 3, 3))
        x = build.op("Conv", (x, weight), dims, name=f"conv{layer}", kernel_shape=(3, 3))
        vectors = [build.weight(f"norm{layer}.{p}", (channels,)) for p in ("scale", "shift")]
        vectors += [
            build.tensor(f"norm{layer}.{p}", (channels,), Role.BUFFER) for p in ("mean", "variance")
        ]
        x = build.op("BatchNormalization", (x, *vectors), dims, name=f"norm{layer}")
        x = build.op("Relu", (x,), dims)
        x = build.op("MaxPool", (x,), dims, kernel_shape=(3, 3))
    return squared_error(build, x)


def softmax_loss(build: GraphBuilder, x: str) -> str:
    """The mean cross-entropy with a label for each class, in small operators."""
    dims = build.tensors[x].dims
    batch = dims[0]
    label = build.input("label", dims)
    top = build.op("ReduceMax", (x,), (batch, 1), name="top", axes=(1,))
    power = build.op("Exp", (build.op("Sub", (x, top), dims),), dims)
    total = build.op("ReduceSum", (power,), (batch, 1), axes=(1,))
    likely = build.op("Log", (build.op("Div", (power, total), dims),), dims)
    hit = build.op("Mul", (likely, label), dims)
    loss = build.op("Neg", (build.op("ReduceSum", (hit,), (batch,), axes=(1,)),), (batch,))
    return build.op("ReduceMean", (loss,), (), axes=(0,))
