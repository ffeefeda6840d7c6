"""Operators whose parts are more than the operator on smaller operands.

Written in autograd's numpy, so that their gradients are those of what really runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.algorithms.attention import ATTENTION, attention
from executors.algorithms.convolution import CONVOLUTION
from executors.algorithms.elementwise import ELEMENTWISE
from executors.algorithms.ends import ENDS
from executors.algorithms.experts import EXPERTS
from executors.algorithms.indexing import INDEXING
from executors.algorithms.losses import LOSSES
from executors.algorithms.normalisations import NORMALISATIONS
from executors.algorithms.quantised import QUANTISED
from executors.algorithms.recurrent import RECURRENT
from executors.algorithms.statistics import STATISTICS
from executors.composites import run_composite, run_parts
from executors.spmd import Algorithm, OperatorRun, Shards
from ir.ops import FUSED

__all__ = ["ALGORITHMS"]


def _composite(task: OperatorRun) -> Shards:
    return run_composite(task, ALGORITHMS)


def _attention(task: OperatorRun) -> Shards:
    """Attention that a file writes in small operators runs as these."""
    return run_parts(task, ALGORITHMS) if task.op.parts else attention(task)


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        **ATTENTION,
        **CONVOLUTION,
        **ELEMENTWISE,
        **ENDS,
        **EXPERTS,
        **INDEXING,
        **QUANTISED,
        **LOSSES,
        **NORMALISATIONS,
        **RECURRENT,
        **STATISTICS,
        FUSED: _composite,
        "Attention": _attention,
    }
)
