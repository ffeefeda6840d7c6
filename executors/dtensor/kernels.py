"""Operators as torch functions, on DTensors or on the part of one device.

Each follows ONNX; what a result looks like is told by its dims, which are those of the whole tensor
where operands are DTensors and those of the device's part elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

import torch

from executors.dtensor.arrays import in_torch
from executors.dtensor.call import Call, Kernel
from executors.dtensor.kernels_attention import ATTENTION
from executors.dtensor.kernels_images import IMAGES
from executors.dtensor.kernels_shape import SHAPE
from executors.dtensor.kernels_statistics import STATISTICS
from executors.dtensor.numbers import same_kind
from executors.semantics import SEMANTICS
from ir.ops import catalogue
from ir.semantics.call import applied

__all__ = ["KERNELS", "Kernel"]

Tensor: TypeAlias = Any


def _gather(call: Call) -> list[Tensor]:
    """A lookup of rows of a table is an embedding, for which DTensor has a rule of its own."""
    table, rows, axis = call[0], call[1], call.int("axis")
    rows = torch.where(rows < 0, rows + table.shape[axis], rows)
    if axis == 0 and table.ndim == 2 and table.is_floating_point():
        return [torch.nn.functional.embedding(rows, table)]
    found = torch.index_select(table, axis, rows.reshape(-1))
    return [found.reshape((*table.shape[:axis], *rows.shape, *table.shape[axis + 1 :]))]


def _gather_nd(call: Call) -> list[Tensor]:
    """Numbers of the coordinates are not looked at: they may lie on another device, or nowhere."""
    data, rows, batch = call[0], call[1], call.int("batch_dims")
    index: list[Tensor] = []
    for dim in range(batch):
        shape = [-1 if d == dim else 1 for d in range(rows.ndim - 1)]
        places = torch.arange(data.shape[dim], device=data.device).reshape(shape)
        index.append(same_kind(data, places))
    index += [rows[..., i] for i in range(rows.shape[-1])]
    return [data[tuple(index)]]


_NATIVE: Mapping[str, Kernel] = MappingProxyType(
    {
        **{
            kind: applied(entry.function, attrgetter(entry.function.torch)(torch))
            for kind, entry in catalogue().items()
            if entry.function and entry.function.torch
        },
        "Div": lambda c: [
            torch.div(c[0], c[1], rounding_mode=None if c[0].is_floating_point() else "trunc")
        ],
        "Gather": _gather,
        "GatherND": _gather_nd,
        **ATTENTION,
        **IMAGES,
        **SHAPE,
        **STATISTICS,
    }
)
"""Kinds for which torch has a function that is faster, keeps less or that DTensor splits."""


def _either(native: Kernel, other: Kernel) -> Kernel:
    def run(call: Call) -> list[Tensor]:
        try:
            return native(call)
        except NotImplementedError:
            return other(call)

    return run


def _kernels() -> Iterator[tuple[str, Kernel]]:
    for kind in {**_NATIVE, **SEMANTICS}:
        native = _NATIVE.get(kind)
        other = in_torch(SEMANTICS[kind]) if kind in SEMANTICS else None
        found = _either(native, other) if native and other else native or other
        if found:
            yield kind, found


KERNELS: Mapping[str, Kernel] = MappingProxyType(dict(_kernels()))
"""Kinds that can be run: by torch's own function, else by what every executor computes."""
