"""Seconds of one training step of conventional layouts, for many of them at once.

    T = m t_max + sum of the other stages / v + exposed communication + optimizer

with m micro-batches, t a stage's forward and backward pass of one micro-batch, v chunks per stage
(1F1B and interleaved: Narayanan et al., SC21, arXiv 2104.04473; other orders:
`costmodel.schedules.closed_form`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.communication import transfers_s
from costmodel.training.links import Group, links_of
from costmodel.training.parameter_messages import sent_alone_s
from costmodel.training.passes import BESIDE, IN_TURN, Computing, Joins, layer_terms
from costmodel.training.pipeline import pipeline_times
from costmodel.training.sizes import (
    expert_parts,
    expert_replicas,
    local_parameters,
    replicas_of,
    sharing_group,
)
from costmodel.training.states import ADAPTERS, FULLY_SHARDED, orthogonalise_s, update_bytes

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.links import Links
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
    links, layer = links_of(table, c), layer_terms(table, c, joins, own)
    passes = layer.passes
    steady, bubble = pipeline_times(table, c, layer)
    transfer = transfers_s(table, c, links)
    alone = joins == IN_TURN
    hidden = np.zeros_like(table.overlap) if alone else hidden_gradients(table, c)
    gradients = _gradients(table, links, hidden, table.most_layers * passes.both, c.sent_bytes)
    optimizer = _optimizer(table, c)
    other = np.broadcast_to(np.asarray(c.step_s), steady.shape)
    return StepTimes(
        total=steady + bubble + transfer + gradients + optimizer + other,
        steady=steady,
        bubble=bubble,
        transfer=transfer,
        gradients=gradients,
        optimizer=optimizer,
        other=other,
        layer_forward=passes.forward,
        layer_backward=passes.backward,
        layer_gather=layer.gather,
    )


def hidden_gradients(table: RunTable, c: StepConstants) -> FloatArray:
    """Share of the exchange of gradients and parameters that software sends beside the passes.

    Where parameters are sharded layer by layer, so are gradients reduced, between groups of ranks
    too (hybrid sharding): as much shows as of gathering.
    """
    layered = (table.zero_stage >= FULLY_SHARDED) & (table.gather_once == 0)
    shown = np.where(layered, c.fetch_shown, 1.0)
    hidden = np.maximum(np.maximum(c.dp_hidden, 0.8 * table.overlap), 1.0 - shown)
    return np.where(table.exposed_gradients > 0, 0.0, hidden)


def _gradients(
    table: RunTable, links: Links, hidden: FloatArray, window: FloatArray, sent_bytes: float
) -> FloatArray:
    """Exposed all-reduce of gradients, or their scatter and the gathering of new parameters.

    Each parameter is `sent_bytes` wide on its way, in the mean of both.

    What runs beside computation has the passes of one micro-batch through a stage, `window`
    seconds, to hide behind: gradients are ready in the last one, parameters needed in the first.
    """
    dense, routed = local_parameters(table)
    replicas = replicas_of(table)
    parts = table.zero_stage >= 1
    reduced = links.summed_s(4.0 * dense, Group(replicas, table.tp), parts)
    copies = expert_replicas(table, replicas)
    stride = expert_parts(table) * table.ep
    exchanged = links.summed_s(4.0 * routed, Group(copies, stride), parts)
    total = np.where(replicas > 1, reduced, 0.0)
    total = total + np.where((copies > 1) & (routed > 0), exchanged, 0.0)
    beside = (table.zero_stage >= FULLY_SHARDED) & (table.gather_once == 0)
    total = np.where(beside, _between_groups(table, links, dense + routed), total)
    whole = total * (sent_bytes / 4.0)
    if np.any(table.alone > 0):
        alone = sent_alone_s(table, links) + np.where(beside, whole, 0.0)
        whole = np.where(table.alone > 0, alone, whole)
    exposed = whole - np.minimum(hidden * whole, window)
    return np.where(table.frozen > 0, 0.0, exposed)


def _between_groups(table: RunTable, links: Links, parameters: FloatArray) -> FloatArray:
    """Reduction of the gradients' shares over the groups of replicas that share parameters; none
    where all replicas are one group, whose reduction runs beside the backward pass.
    """
    size = sharing_group(table)
    groups = np.maximum(replicas_of(table) / size, 1.0)
    members = Group(groups, table.tp * size)
    reduced = links.summed_s(4.0 * parameters / size, members, np.zeros_like(size))
    return np.where(groups > 1, reduced, 0.0)


def _optimizer(table: RunTable, c: StepConstants) -> FloatArray:
    """Update of parameters, as the table of `costmodel.memory` has it: with Adam 34 bytes each
    where gradients are read in 32 bits and once more for their norm.

    States that are kept on the host come for the update and go back after it.
    """
    dense, routed = local_parameters(table)
    replicas = replicas_of(table)
    parts = np.where(table.zero_stage >= 1, replicas, 1.0)
    expert_parts = np.where(table.zero_stage >= 1, expert_replicas(table, replicas), 1.0)
    moved, states = (
        each.dense * (dense / parts) + each.routed * (routed / expert_parts)
        for each in update_bytes(table, c.updated)
    )
    crossed = 2.0 * states * table.swap_optimizer / (table.machine.host_bytes_per_s * c.swap)
    products = orthogonalise_s(table, c, (parts, expert_parts))
    whole = table.machine.stream_s(moved) / c.memory + crossed + products
    return np.where(table.frozen > 0, ADAPTERS, 1.0) * whole
