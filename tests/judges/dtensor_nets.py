"""Networks that DTensor judges: small enough to run, of the operators that models are made of."""

from __future__ import annotations

from ir.graph import OpGraph, Role
from tests.builders import GraphBuilder, attention_block, mlp
from tests.cases import nets

__all__ = ["attention_block", "convolutions", "heads_of_their_own", "mlp", "transformer"]


def transformer(
    batch: int, rows: int, vocabulary: int, hidden: int, heads: int, ffn: int
) -> OpGraph:
    """Embedding, one encoder layer and a table of scores, which a loss reads in training."""
    build = GraphBuilder("transformer")
    ids = build.input("ids", (batch, rows), "int64")
    table = build.weight("table", (vocabulary, hidden))
    x = build.op("Gather", (table, ids), (batch, rows, hidden), name="embedding", axis=0)
    x = nets.encoder_layer(build, x, "layer", heads, ffn)
    return build.build(nets.dense(build, x, "scores", vocabulary, bias=False))


def convolutions(batch: int, image: int, channels: int, classes: int) -> OpGraph:
    """Two convolutions with batch normalisation, pooling, a mean over positions and a product."""
    build = GraphBuilder("convolutions")
    x = build.input("x", (batch, 3, image, image))
    before = 3
    for layer in range(2):
        weight = build.weight(f"conv{layer}.w", (channels, before, 3, 3))
        dims = (batch, channels, image, image)
        x = build.op(
            "Conv",
            (x, weight),
            dims,
            name=f"conv{layer}",
            kernel_shape=(3, 3),
            pads=(1, 1, 1, 1),
            strides=(1, 1),
        )
        vectors = [build.weight(f"norm{layer}.{p}", (channels,)) for p in ("scale", "shift")]
        vectors += [
            build.tensor(f"norm{layer}.{p}", (channels,), Role.BUFFER) for p in ("mean", "variance")
        ]
        x = build.op("BatchNormalization", (x, *vectors), dims, name=f"norm{layer}")
        x = build.op("Relu", (x,), dims)
        image, before = image // 2, channels
        x = build.op(
            "MaxPool",
            (x,),
            (batch, channels, image, image),
            kernel_shape=(3, 3),
            strides=(2, 2),
            pads=(1, 1, 1, 1),
        )
    x = build.op("GlobalAveragePool", (x,), (batch, channels, 1, 1))
    x = build.op("Reshape", (x,), (batch, channels))
    return build.build(nets.dense(build, x, "scores", classes))


def heads_of_their_own(batch: int, heads: int, rows: int) -> OpGraph:
    """Attention whose heads are a dimension of the weights, of sizes that do not split evenly."""
    build = GraphBuilder("heads")
    width = 6
    x = build.input("x", (batch, 1, rows, width))
    parts = [
        build.op(
            "MatMul", (x, build.weight(name, (heads, width, width))), (batch, heads, rows, width)
        )
        for name in ("q", "k", "v")
    ]
    y = build.op("Attention", parts, (batch, heads, rows, width), name="core")
    y = build.op(
        "MatMul", (y, build.weight("o", (heads, width, width))), (batch, heads, rows, width)
    )
    return build.build(build.op("ReduceSum", (y,), (batch, rows, width), axes=(1,)))
