"""The blocks of `tests/data/mindir` as ONNX models, written as exporters write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import onnx

from tests.importers.onnx_models import node, stored
from tests.importers.torch_export import twins

NAMES = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean",
         "moving_variance": "running_var"}  # fmt: skip
"""What MindSpore's norms call their parameters, and PyTorch's."""

_ATTENTION = [
    node("Transpose", ["key.heads"], ["key.columns"], perm=[0, 1, 3, 2]),
    node("MatMul", ["query.heads", "key.columns"], ["scores"]),
    node("Mul", ["scores", "factor"], ["scaled"]),
    node("Add", ["scaled", "hidden"], ["masked"]),
    node("Softmax", ["masked"], ["chance"], axis=-1),
    node("MatMul", ["chance", "value.heads"], ["seen"]),
]


def _by_tangent(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with MindSpore's GELU."""
    for each in model.graph.node:
        for attribute in each.attribute:
            if each.op_type == "Gelu":
                attribute.s = b"tanh"
    return model


def transformer() -> onnx.ModelProto:
    model = _by_tangent(twins.transformer(_ATTENTION))
    model.graph.initializer.append(stored("factor", 64**-0.5))
    return model


TWINS: Mapping[str, Callable[[], onnx.ModelProto]] = MappingProxyType(
    {
        "mlp": twins.mlp, "transformer": transformer, "residual": twins.residual,
        "experts": lambda: _by_tangent(twins.experts()),
    }
)  # fmt: skip
