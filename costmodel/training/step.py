"""Seconds of one training step of conventional layouts, for many of them at once.

    T = m t_max + sum of the other stages / v + exposed communication + optimizer

with m micro-batches, t a stage's forward and backward pass of one micro-batch, v chunks per stage
(1F1B and interleaved: Narayanan et al., SC21, arXiv 2104.04473; other orders: `schedule_forms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.communication import Links, all_gather_s, group
from costmodel.training.exchanges import transfers_s
from costmodel.training.kernels import stream_s
from costmodel.training.passes import (
    BESIDE,
    FULLY_SHARDED,
    IN_TURN,
    Computing,
    Joins,
    computing,
    layer_passes,
)
from costmodel.training.pipeline import pipeline_times
from costmodel.training.schedule_forms import micro_batches
from costmodel.training.sizes import (
    expert_parts,
    expert_replicas,
    local_parameters,
    replicas_of,
)

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["StepTimes", "hidden_gradients", "step_times", "times_in_turn"]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of one step and where they go, each of shape (N,)."""

    total: FloatArray
    steady: FloatArray
    """The fullest stage at work on all micro-batches, its exposed communication included."""

    bubble: FloatArray
    """The pipeline filling and draining."""

    transfer: FloatArray
    """Exposed transfers between stages."""

    gradients: FloatArray
    """Exposed reduction of gradients and gathering of parameters."""

    optimizer: FloatArray
    other: FloatArray
    """Fixed time of a step."""

    layer_forward: FloatArray
    """Forward pass of one micro-batch through one layer."""

    layer_backward: FloatArray
    """Backward pass, recomputation included."""

    layer_gather: FloatArray
    """Gathering the sharded parameters of one layer for one pass, or reducing their gradients;
    nothing where they are gathered once in a step. It is a part of the passes."""


def times_in_turn(table: RunTable, c: StepConstants) -> StepTimes:
    """Price the runs of a table if nothing overlapped: every time counts in full."""
    loud = table.with_columns({"overlap": np.zeros_like(table.overlap)})
    return step_times(loud, c.in_turn(), IN_TURN)


def step_times(
    table: RunTable, c: StepConstants, joins: Joins = BESIDE, own: Computing | None = None
) -> StepTimes:
    """Price the runs of a table.

    Args:
        table: the runs.
        c: what machine and software reach.
        joins: how times that run beside each other are joined.
        own: what the runs compute, where that is known.
    """
    links = Links.of(c)
    own = computing(table, c) if own is None else own
    passes = layer_passes(table, c, joins, own)
    steady, bubble = pipeline_times(table, c, joins, own, passes)
    transfer = transfers_s(table, c, links, micro_batches(table))
    alone = joins == IN_TURN
    hidden = np.zeros_like(table.overlap) if alone else hidden_gradients(table, c)
    gradients = _gradients(table, links, hidden, table.most_layers * passes.both)
    optimizer = _optimizer(table, c)
    other = np.broadcast_to(np.asarray(c.step_s), steady.shape)
    total = steady + bubble + transfer + gradients + optimizer + other
    return StepTimes(total, steady, bubble, transfer, gradients, optimizer, other, *passes)


def hidden_gradients(table: RunTable, c: StepConstants) -> FloatArray:
    """Share of the exchange of gradients and parameters that software sends beside the passes.

    Where parameters are sharded layer by layer, so are gradients reduced, between groups of ranks
    too (hybrid sharding): as much shows as of gathering.
    """
    layered = (table.zero_stage >= FULLY_SHARDED) & (table.gather_once == 0)
    shown = np.where(layered, c.fetch_shown, 1.0)
    return np.maximum(np.maximum(c.dp_hidden, 0.8 * table.overlap), 1.0 - shown)


def _gradients(table: RunTable, links: Links, hidden: FloatArray, window: FloatArray) -> FloatArray:
    """Exposed all-reduce of gradients, or their scatter and the gathering of new parameters.

    What runs beside computation has the passes of one micro-batch through a stage, `window`
    seconds, to hide behind: gradients are ready in the last one, parameters needed in the first.
    """
    dense, routed = local_parameters(table)
    replicas = replicas_of(table)
    reduced = all_gather_s(table, links, 4.0 * dense, group(table, replicas, table.tp))
    copies = expert_replicas(table, replicas)
    stride = expert_parts(table) * table.ep
    exchanged = all_gather_s(table, links, 4.0 * routed, group(table, copies, stride))
    total = np.where(replicas > 1, reduced, 0.0)
    total = total + np.where((copies > 1) & (routed > 0), exchanged, 0.0)
    beside = (table.zero_stage >= FULLY_SHARDED) & (table.gather_once == 0)
    total = np.where(beside, _between_groups(table, links, dense + routed), total)
    whole = 2.0 * total * 0.75
    exposed = whole - np.minimum(hidden * whole, window)
    return np.where(table.frozen > 0, 0.0, exposed)


def _between_groups(table: RunTable, links: Links, parameters: FloatArray) -> FloatArray:
    """Reduction of the gradients' shares over the groups of replicas that share parameters; none
    where all replicas are one group, whose reduction runs beside the backward pass.
    """
    replicas = replicas_of(table)
    size = np.where(table.zero_group > 0, table.zero_group, replicas)
    groups = np.maximum(replicas / size, 1.0)
    members = group(table, groups, table.tp * size)
    return np.where(groups > 1, all_gather_s(table, links, 4.0 * parameters / size, members), 0.0)


_HOST_BYTES_PER_S = 32e9
"""Nominal rate of PCIe 4 x16, by which a device reaches the memory of its host."""

_SWAPPED = 24.0
"""Bytes per parameter that come from the host and go back: master copy and both moments."""


def _optimizer(table: RunTable, c: StepConstants) -> FloatArray:
    """Update of parameters: about 34 bytes each for Adam with a copy in 32 bits.

    States that are kept on the host come for the update and go back after it.
    """
    dense, routed = local_parameters(table)
    replicas = replicas_of(table)
    parts = np.where(table.zero_stage >= 1, replicas, 1.0)
    expert_parts = np.where(table.zero_stage >= 1, expert_replicas(table, replicas), 1.0)
    updated = np.where(table.frozen > 0, 0.01, 1.0) * (dense / parts + routed / expert_parts)
    swapped = _SWAPPED * updated * table.swapped_optimizer / (_HOST_BYTES_PER_S * c.swap)
    return stream_s(34.0 * updated, table.machine) / c.memory + swapped
