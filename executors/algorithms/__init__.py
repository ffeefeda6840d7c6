"""Operators whose parts are more than the operator on smaller operands, on all devices at once.

Most are the algorithms of one device in step; the others are written in autograd's numpy, so that
their gradients are those of what really runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.algorithms.convolution import CONVOLUTION
from executors.algorithms.elementwise import ELEMENTWISE
from executors.algorithms.in_step import in_step
from executors.algorithms.statistics import STATISTICS
from executors.composites import run_composite, run_parts
from executors.device_algorithms import DEVICE_ALGORITHMS
from executors.spmd import Algorithm, OperatorRun, Shards
from ir.ops import FUSED, Engine, lookup

__all__ = ["ALGORITHMS"]


def _composite(task: OperatorRun) -> Shards:
    return run_composite(task, ALGORITHMS)


def _attention(task: OperatorRun) -> Shards:
    """Attention that a file writes in small operators runs as these."""
    return run_parts(task, ALGORITHMS) if task.op.parts else _OF_DEVICES[task.op.kind](task)


_OF_DEVICES: Mapping[str, Algorithm] = MappingProxyType(
    {kind: in_step(algorithm) for kind, algorithm in DEVICE_ALGORITHMS.items()}
)


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        **_OF_DEVICES,
        **CONVOLUTION,
        **ELEMENTWISE,
        **STATISTICS,
        FUSED: _composite,
        **{k: _attention for k in _OF_DEVICES if lookup(k).engine is Engine.ATTENTION},
    }
)
