"""The blocks of `tests/data/torch` as ONNX models, written as exporters write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.importers.onnx_models import FLOAT, graph, node, stored, value, weight

OPSET = 23


def _model(
    nodes: Sequence[onnx.NodeProto],
    dims: tuple[Sequence[int], Sequence[int]],
    weights: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    stored_weights = [weight(name, *shape) for name, shape in weights.items()]
    numbers = [stored(name, values) for name, values in (constants or {}).items()]
    found = graph(
        nodes,
        [value("x", dims[0], FLOAT)],
        [value("y", dims[1], FLOAT)],
        [*stored_weights, *numbers],
    )
    return helper.make_model(found, opset_imports=[helper.make_opsetid("", OPSET)])


def mlp() -> onnx.ModelProto:
    nodes = [
        node("Gemm", ["x", "up.weight", "up.bias"], ["h"], transB=1),
        node("Relu", ["h"], ["a"]),
        node("Gemm", ["a", "down.weight", "down.bias"], ["y"], transB=1),
    ]
    weights = {
        "up.weight": (2048, 512), "up.bias": (2048,), "down.weight": (512, 2048),
        "down.bias": (512,),
    }  # fmt: skip
    return _model(nodes, ((64, 512), (64, 512)), weights)


def _linear(name: str, source: str, result: str) -> list[onnx.NodeProto]:
    return [
        node("Transpose", [f"{name}.weight"], [f"{name}.turned"], perm=[1, 0]),
        node("MatMul", [source, f"{name}.turned"], [f"{name}.product"]),
        node("Add", [f"{name}.product", f"{name}.bias"], [result]),
    ]


def _decomposed() -> list[onnx.NodeProto]:
    """Attention in small operators, with the guard that exporters write."""
    return [
        node("Mul", ["query.heads", "root"], ["query.scaled"]),
        node("Transpose", ["key.heads"], ["key.columns"], perm=[0, 1, 3, 2]),
        node("Mul", ["key.columns", "root"], ["key.scaled"]),
        node("MatMul", ["query.scaled", "key.scaled"], ["scores"]),
        node("Add", ["scores", "hidden"], ["masked"]),
        node("Softmax", ["masked"], ["chance"], axis=-1),
        node("IsNaN", ["chance"], ["nothing"]),
        node("Where", ["nothing", "zero", "chance"], ["safe"]),
        node("MatMul", ["safe", "value.heads"], ["seen"]),
    ]


_NORM = ("between.weight", "between.bias")
_WHOLE = [node("Attention", ["query.heads", "key.heads", "value.heads"], ["seen"], is_causal=1)]


def transformer(attention: Sequence[onnx.NodeProto] = _WHOLE) -> onnx.ModelProto:
    nodes = [node("LayerNormalization", ["x", "before.weight", "before.bias"], ["h"], epsilon=1e-5)]
    for each in ("query", "key", "value"):
        nodes += [
            *_linear(each, "h", f"{each}.flat"),
            node("Reshape", [f"{each}.flat", "apart"], [f"{each}.apart"]),
            node("Transpose", [f"{each}.apart"], [f"{each}.heads"], perm=[0, 2, 1, 3]),
        ]
    nodes += [
        *attention,
        node("Transpose", ["seen"], ["rows"], perm=[0, 2, 1, 3]),
        node("Reshape", ["rows", "together"], ["joined"]),
        *_linear("out", "joined", "attended"),
        node("Add", ["x", "attended"], ["middle"]),
        node("LayerNormalization", ["middle", *_NORM], ["g"], epsilon=1e-5),
        *_linear("up", "g", "wide"),
        node("Gelu", ["wide"], ["active"], approximate="none"),
        *_linear("down", "active", "narrow"),
        node("Add", ["middle", "narrow"], ["y"]),
    ]
    square = dict.fromkeys(("query", "key", "value", "out"), (512, 512))
    matrices = {**square, "up": (2048, 512), "down": (512, 2048)}
    weights = {f"{n}.{part}": (512,) for n in ("before", "between") for part in ("weight", "bias")}
    for name, shape in matrices.items():
        weights |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}  # type: ignore[dict-item]
    constants: dict[str, Any] = {"apart": [8, 128, 8, 64], "together": [8, 128, 512]}
    if len(attention) > 1:
        hidden = np.triu(np.full((128, 128), -np.inf, np.float32), 1)
        constants |= {"root": 64**-0.25, "zero": 0.0, "hidden": hidden}
    return _model(nodes, ((8, 128, 512), (8, 128, 512)), weights, constants)


def residual() -> onnx.ModelProto:
    nodes, source = [], "x"
    weights: dict[str, tuple[int, ...]] = {}
    for index, (into, out, size) in enumerate(((256, 64, 1), (64, 64, 3), (64, 256, 1)), 1):
        pad = size // 2
        nodes += [
            node(
                "Conv", [source, f"conv{index}.weight"], [f"c{index}"], kernel_shape=[size, size],
                pads=[pad] * 4, strides=[1, 1], dilations=[1, 1], group=1,
            ),
            node(
                "BatchNormalization",
                [f"c{index}", *(f"bn{index}.{p}" for p in ("weight", "bias", "running_mean",
                                                          "running_var"))],
                [f"b{index}"],
                epsilon=1e-5,
            ),
        ]  # fmt: skip
        weights[f"conv{index}.weight"] = (out, into, size, size)
        for part in ("weight", "bias", "running_mean", "running_var"):
            weights[f"bn{index}.{part}"] = (out,)
        if index < 3:
            nodes.append(node("Relu", [f"b{index}"], [f"r{index}"]))
            source = f"r{index}"
    nodes += [node("Add", ["b3", "x"], ["sum"]), node("Relu", ["sum"], ["y"])]
    dims = (32, 256, 28, 28)
    return _model(nodes, (dims, dims), weights)


def experts() -> onnx.ModelProto:
    nodes = [
        node("Transpose", ["gate.weight"], ["turned"], perm=[1, 0]),
        node("MatMul", ["x", "turned"], ["scores"]),
        node("Softmax", ["scores"], ["chances"], axis=-1),
        node("TopK", ["chances", "two"], ["share", "chosen"], axis=-1, largest=1),
        node("Reshape", ["chosen", "flat"], ["index"]),
        node("Unsqueeze", ["x", "one"], ["row"]),
        node("Expand", ["row", "pairs"], ["twice"]),
        node("Reshape", ["twice", "many"], ["tokens"]),
        node("Unsqueeze", ["tokens", "one"], ["rows"]),
        node("Gather", ["into", "index"], ["first"], axis=0),
        node("MatMul", ["rows", "first"], ["inner"]),
        node("Gelu", ["inner"], ["active"], approximate="none"),
        node("Gather", ["out", "index"], ["second"], axis=0),
        node("MatMul", ["active", "second"], ["made"]),
        node("Reshape", ["made", "pairs"], ["apart"]),
        node("Unsqueeze", ["share", "last"], ["factor"]),
        node("Mul", ["apart", "factor"], ["weighted"]),
        node("ReduceSum", ["weighted", "one"], ["y"], keepdims=0),
    ]
    weights = {"gate.weight": (8, 512), "into": (8, 512, 1024), "out": (8, 1024, 512)}
    constants = {
        "two": [2], "flat": [-1], "one": [1], "pairs": [512, 2, 512], "many": [1024, 512],
        "last": [-1],
    }  # fmt: skip
    return _model(nodes, ((512, 512), (512, 512)), weights, constants)


TWINS: Mapping[str, Callable[[], onnx.ModelProto]] = MappingProxyType(
    {
        "mlp": mlp, "transformer": transformer, "residual": residual, "experts": experts,
        "mlp_core": mlp, "transformer_core": lambda: transformer(_decomposed()),
        "residual_core": residual, "experts_core": experts,
    }
)  # fmt: skip
"""By the name of the file; `_core` is what PyTorch makes of it in core operators."""
