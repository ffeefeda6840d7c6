"""Time in which the host issues the kernels of a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.layers import experts_issued
from costmodel.training.sizes import routed_share

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["host_s"]

_SOFTMAX = 0.4
"""Share of a layer's kernels that softmax alone is where no fused one is taken (assumed)."""


def host_s(table: RunTable, c: StepConstants) -> FloatArray:
    """Seconds for the forward pass of a mean layer, shape (N,).

    A layer without a feed-forward block, or without a mixer, has half of the kernels; every expert
    of the device has its own. Captured graphs and experts of fixed size take a share of it.
    """
    # Without the fused kernel (see layers) softmax alone is a handful of launches more.
    odd = (table.micro_batch * table.heads / table.tp) % 4 != 0
    host = c.host_s + c.host_tp_s * (table.tp > 1) + c.host_s * _SOFTMAX * odd * table.unfused
    host = host * (table.mixing.blocks / 2.0)
    host = host + c.expert_host_s * routed_share(table) * experts_issued(table)
    replayed = (table.graphs > 0) | (table.fixed_experts > 0)
    return np.asarray(host * np.where(replayed, c.graphed, 1.0))
