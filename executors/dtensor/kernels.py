"""Operators as torch functions, on DTensors or on the part of one device.

Each follows ONNX; what a result looks like is told by its dims, which are those of the whole tensor
where operands are DTensors and those of the device's part elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

import torch

from executors.dtensor.call import Call, Kernel
from executors.dtensor.kernels_attention import ATTENTION
from executors.dtensor.kernels_images import IMAGES
from executors.dtensor.kernels_shape import SHAPE
from executors.dtensor.kernels_statistics import STATISTICS
from executors.dtensor.losses import LOSSES
from executors.dtensor.numbers import same_kind, torch_dtype
from executors.semantics.call import applied
from ir.ops import BIAS_ADD, SCALE, catalogue

__all__ = ["KERNELS", "Kernel"]

Tensor: TypeAlias = Any


def _unary(function: Callable[[Tensor], Tensor]) -> Kernel:
    return lambda call: [function(call[0])]


def _matmul(call: Call) -> list[Tensor]:
    names = ("trans_a", "trans_b")
    one, other = (
        x.transpose(-1, -2) if call.int(key) and x.ndim > 1 else x
        for x, key in zip((call[0], call[1]), names, strict=True)
    )
    return [torch.matmul(one, other)]


def _einsum(call: Call) -> list[Tensor]:
    return [torch.einsum(str(call.op.attributes["equation"]).replace(" ", ""), *call.operands)]


def _gelu(call: Call) -> list[Tensor]:
    approximate = str(call.op.attributes.get("approximate", "none"))
    return [torch.nn.functional.gelu(call[0], approximate=approximate)]


def _biased_gelu(approximate: str) -> Kernel:
    def run(call: Call) -> list[Tensor]:
        data = call[0] + call[1] if call.has(1) else call[0]
        return [torch.nn.functional.gelu(data, approximate=approximate)]

    return run


def _swish(default: float) -> Kernel:
    return lambda call: [call[0] * torch.sigmoid(call.float("alpha", default) * call[0])]


def _cast(call: Call) -> list[Tensor]:
    return [call[0].to(torch_dtype(call.result_dtypes[0]))]


def _dropout(call: Call) -> list[Tensor]:
    """Nothing is dropped, as in the other executors."""
    ones = [torch.ones_like(call[0], dtype=torch.bool)] if len(call.result_dims) > 1 else []
    return [call[0], *ones]


def _clip(call: Call) -> list[Tensor]:
    data = call[0]
    for index, key, bound in ((1, "min", torch.maximum), (2, "max", torch.minimum)):
        if call.has(index):
            data = bound(data, call[index])
        elif key in call.op.attributes:
            data = torch.clamp(data, **{key: call.float(key, 0.0)})
    return [data]


def _where(call: Call) -> list[Tensor]:
    return [torch.where(call[0], call[1], call[2])]


def _pow(call: Call) -> list[Tensor]:
    return [
        torch.pow(call[0], call[1].to(call[0].dtype) if call[0].is_floating_point() else call[1])
    ]


def _bias_add(call: Call) -> list[Tensor]:
    data, axis = call[0], call.int("axis", 1)
    return [data + call[1].reshape([-1 if d == axis else 1 for d in range(data.ndim)])]


def _hard_sigmoid(data: Tensor, alpha: float, beta: float) -> Tensor:
    return torch.clamp(alpha * data + beta, 0.0, 1.0)


def _hard_sigmoid_of(call: Call) -> list[Tensor]:
    return [_hard_sigmoid(call[0], call.float("alpha", 0.2), call.float("beta", 0.5))]


def _gather(call: Call) -> list[Tensor]:
    """A lookup of rows of a table is an embedding, for which DTensor has a rule of its own."""
    table, rows, axis = call[0], call[1], call.int("axis")
    rows = torch.where(rows < 0, rows + table.shape[axis], rows)
    if axis == 0 and table.ndim == 2 and table.is_floating_point():
        return [torch.nn.functional.embedding(rows, table)]
    found = torch.index_select(table, axis, rows.reshape(-1))
    return [found.reshape((*table.shape[:axis], *rows.shape, *table.shape[axis + 1 :]))]


def _gather_nd(call: Call) -> list[Tensor]:
    data, rows, batch = call[0], call[1], call.int("batch_dims")
    index: list[Tensor] = []
    for dim in range(batch):
        shape = [-1 if d == dim else 1 for d in range(rows.ndim - 1)]
        places = torch.arange(data.shape[dim], device=data.device).reshape(shape)
        index.append(same_kind(data, places))
    index += [rows[..., i] for i in range(rows.shape[-1])]
    return [data[tuple(index)]]


KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        **{
            kind: applied(entry.function, attrgetter(entry.function.torch)(torch))
            for kind, entry in catalogue().items()
            if entry.function and entry.function.torch
        },
        "MatMul": _matmul,
        "Einsum": _einsum,
        SCALE: lambda call: [call[0] * call.float("scale", 1.0)],
        "Identity": _unary(lambda x: x),
        "HardSwish": lambda call: [call[0] * _hard_sigmoid(call[0], 1 / 6, 0.5)],
        "HardSigmoid": _hard_sigmoid_of,
        "LeakyRelu": lambda c: [torch.nn.functional.leaky_relu(c[0], c.float("alpha", 0.01))],
        "Gelu": _gelu,
        "FastGelu": _biased_gelu("tanh"),
        "BiasGelu": _biased_gelu("none"),
        "QuickGelu": _swish(1.702),
        "Swish": _swish(1.0),
        "Cast": _cast,
        "Dropout": _dropout,
        "Clip": _clip,
        "Where": _where,
        "Pow": _pow,
        "Div": lambda c: [
            torch.div(c[0], c[1], rounding_mode=None if c[0].is_floating_point() else "trunc")
        ],
        BIAS_ADD: _bias_add,
        "Gather": _gather,
        "GatherND": _gather_nd,
        **ATTENTION,
        **IMAGES,
        **LOSSES,
        **SHAPE,
        **STATISTICS,
    }
)
"""Kinds that can be run."""
