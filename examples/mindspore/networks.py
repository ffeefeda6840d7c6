"""The networks of MindSpore's tutorials on parallelism, as ONNX files without weights.

python examples/mindspore/networks.py dynamic_mlp mlp.onnx
python examples/mindspore/networks.py              prints the names

Operators are named by the cells that hold them: `/block1/dense1/MatMul` is one of `block1.dense1`.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import sys
from pathlib import Path

from onnx import ModelProto, parser

HEADER = '<ir_version: 10, opset_import: ["": 20]>'
AWAY = '= ["location": "weights"]'
"""The weights are named and not stored: planning needs their shapes alone."""

DYNAMIC_MLP = f"""{HEADER}
dynamic_mlp (float[batch, 1, 28, 28] x) => (float[batch, 10] y)
<float[784, 512] fc1_weight {AWAY}, float[512, 512] fc2_weight {AWAY},
 float[512, 10] fc3_weight {AWAY}>
{{
    flatten = Flatten <axis = 1> (x)
    matmul1 = MatMul(flatten, fc1_weight)
    relu1 = Relu(matmul1)
    matmul2 = MatMul(relu1, fc2_weight)
    relu2 = Relu(matmul2)
    y = MatMul(relu2, fc3_weight)
}}
"""
"""Rows of any number; the tutorial's `Symbol(divisor=8)` on each of eight ranks."""

HYBRID = f"""{HEADER}
hybrid (float[32, 512] x) => (float[32] y)
<float[512, 128] weight {AWAY}, int64[1] axes = {{-1}}>
{{
    fc = MatMul(x, weight)
    y = ReduceSum <keepdims = 0> (fc, axes)
}}
"""
"""HybridParallelNet and SemiAutoParallelNet: the columns of the weight are cut in two."""

SOFTMAX_EXPAND = f"""{HEADER}
softmax_expand (float[64, 2048] x, float[64, 1000] label) => (float loss)
<float[2048, 1000] weight {AWAY}, int64[1] last = {{-1}}, int64[1] first = {{0}}>
{{
    logit = MatMul(x, weight)
    loss__max = ReduceMax <keepdims = 1> (logit, last)
    loss__sub = Sub(logit, loss__max)
    loss__exp = Exp(loss__sub)
    loss__sum = ReduceSum <keepdims = 1> (loss__exp, last)
    loss__div = Div(loss__exp, loss__sum)
    loss__log = Log(loss__div)
    loss__mul = Mul(loss__log, label)
    loss__cross = ReduceSum <keepdims = 0> (loss__mul, last)
    loss__mul2 = Neg(loss__cross)
    loss = ReduceMean <keepdims = 0> (loss__mul2, first)
}}
"""
"""SoftmaxCrossEntropyExpand behind a classifier: the loss in small operators, each with a split."""

LARGE_IMAGES = f"""{HEADER}
large_images (float[32, 1, 28, 4096] x) => (float[32, 10] y)
<float[114688, 512] layer1_weight {AWAY}, float[512, 10] layer2_weight {AWAY}>
{{
    flatten = Flatten <axis = 1> (x)
    layer1 = MatMul(flatten, layer1_weight)
    relu1 = Relu(layer1)
    y = MatMul(relu1, layer2_weight)
}}
"""
"""Images too wide for one card: every card reads a strip of each."""

WIDE_TABLE = f"""{HEADER}
wide_table (int64[1024, 26] ids) => (float[1024, 1] y)
<float[200000, 16] embedding_table {AWAY}, float[416, 1] dense_weight {AWAY},
 int64[2] flat = {{1024, 416}}>
{{
    embedding = Gather(embedding_table, ids)
    rows = Reshape(embedding, flat)
    y = MatMul(rows, dense_weight)
}}
"""
"""A lookup in a table that a parameter server holds."""

DENSE_RELU = f"""{HEADER}
dense_relu (float[32, 128] x, float[128, 10] weight, float[10] bias)
 => (float[32, 10] dense_relu__relu)
{{
    dense_relu__matmul = MatMul(x, weight)
    dense_relu__bias_add = Add(dense_relu__matmul, bias)
    dense_relu__relu = Relu(dense_relu__bias_add)
}}
"""
"""A function: weight and bias are arguments."""


def _blocks() -> str:
    """Three blocks of two layers between a first and a last layer."""
    shapes = {"layer1": (784, 128), "layer2": (128, 10)}
    for number in (1, 2, 3):
        shapes[f"block{number}.dense1"] = (128, 256)
        shapes[f"block{number}.dense2"] = (256, 128)
    weights = ",\n ".join(
        f'float[{m}, {n}] "{name}.weight" {AWAY}' for name, (m, n) in shapes.items()
    )
    lines = [
        "flatten = Flatten <axis = 1> (x)",
        'layer1__matmul = MatMul(flatten, "layer1.weight")',
    ]
    last = "layer1__matmul"
    for number in (1, 2, 3):
        own = f"block{number}"
        lines += [
            f'{own}__dense1__matmul = MatMul({last}, "{own}.dense1.weight")',
            f"{own}__gelu = Gelu({own}__dense1__matmul)",
            f'{own}__dense2__matmul = MatMul({own}__gelu, "{own}.dense2.weight")',
        ]
        last = f"{own}__dense2__matmul"
    lines.append(f'y = MatMul({last}, "layer2.weight")')
    body = "\n    ".join(lines)
    head = "blocks (float[64, 1, 28, 28] x) => (float[64, 10] y)"
    return f"{HEADER}\n{head}\n<{weights}>\n{{\n    {body}\n}}\n"


NETWORKS = {
    "dynamic_mlp": DYNAMIC_MLP,
    "hybrid": HYBRID,
    "softmax_expand": SOFTMAX_EXPAND,
    "large_images": LARGE_IMAGES,
    "wide_table": WIDE_TABLE,
    "dense_relu": DENSE_RELU,
    "blocks": _blocks(),
}


def network(name: str) -> ModelProto:
    """A network whose operators have the names of their results and the paths of their cells."""
    model: ModelProto = parser.parse_model(NETWORKS[name])
    for node in model.graph.node:
        path = node.output[0].split("__")
        node.name = node.output[0] if len(path) == 1 else "/" + "/".join(path)
    return model


def main() -> None:
    """Write one network, or print their names."""
    if len(sys.argv) < 3:
        print("\n".join(NETWORKS))
        return
    Path(sys.argv[2]).write_bytes(network(sys.argv[1]).SerializeToString())


if __name__ == "__main__":
    main()
