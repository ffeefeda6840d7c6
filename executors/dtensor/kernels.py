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

from executors.dtensor import kernels_attention, kernels_images, kernels_shape
from executors.dtensor.arrays import in_torch
from executors.dtensor.call import Call, Kernel
from executors.dtensor.kernels_statistics import STATISTICS
from executors.semantics import SEMANTICS
from ir.ops import catalogue
from ir.semantics import named
from ir.semantics.call import applied

__all__ = ["KERNELS", "Kernel"]

Tensor: TypeAlias = Any


_NATIVE: Mapping[str, Kernel] = MappingProxyType(
    {
        **{
            kind: applied(entry.function, attrgetter(entry.function.torch)(torch))
            for kind, entry in catalogue().items()
            if entry.function and entry.function.torch
        },
        **named(kernels_attention, kernels_images, kernels_shape),
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
