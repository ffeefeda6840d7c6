"""Seconds of one training step of conventional layouts, for many of them at once.

    T = m t_max + sum of the other stages / v + exposed communication + optimizer

with m micro-batches, t a stage's forward and backward pass of one micro-batch, v chunks per stage
(1F1B and interleaved: Narayanan et al., SC21, arXiv 2104.04473; other orders: `schedule_forms`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.communication import Links, all_gather_s, group
from costmodel.training.ends import HEAD_FORWARD, ends_with_s
from costmodel.training.exchanges import (
    context_parallel_s,
    expert_exchange_s,
    tensor_parallel_s,
    transfers_s,
)
from costmodel.training.host import host_s
from costmodel.training.kernels import stream_s
from costmodel.training.layers import layer_times
from costmodel.training.schedule_forms import PLAIN, Shares, idle_share, put_off_share, steady_s
from costmodel.training.sizes import (
    dense_share,
    expert_parts,
    expert_replicas,
    further_layers,
    gathered_parameters,
    head_tables,
    local_parameters,
    replicas_of,
    routed_share,
)

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "BESIDE", "IN_TURN", "Joins", "StepTimes", "beside_s", "hidden_gradients", "step_times",
    "times_in_turn", "weight_s",
]  # fmt: skip

_FULLY_SHARDED = 3
"""ZeRO stage whose parameters are gathered layer by layer."""


@dataclass(frozen=True, slots=True)
class Joins:
    """Exponents of the norms that join times which run beside each other: nearly the larger of two
    where they are large, the sum at 1.
    """

    host: float = 5.0
    """Of host and device time. A layer has kernels of all lengths, so that some wait for the host
    where most do not."""

    fetch: float = 6.0
    """Of a pass and the gathering of its sharded parameters."""


BESIDE, IN_TURN = Joins(), Joins(1.0, 1.0)


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


def step_times(table: RunTable, c: StepConstants, joins: Joins = BESIDE) -> StepTimes:
    """Price the runs of a table.

    What embedding and head gather and reduce of sharded parameters counts where nothing overlaps;
    beside their passes all of it is hidden.
    """
    links = Links.of(c)
    micro_batches = table.global_batch / (table.micro_batch * table.dp)
    forward, backward, gather = _layer_passes(table, c, links, joins)
    embedding, head = ends_with_s(table, c, forward + backward)
    if joins == IN_TURN:
        shared = 3.0 * gather * table.vocab * table.hidden / table.tp / gathered_parameters(table)
        embedding, head = embedding + shared, head + head_tables(table) * shared
    layer = forward + backward
    slowest, whole = _way(table, layer, (embedding, head), c.host_micro_s)
    shares, pair = PLAIN, slowest
    if np.any((table.put_off > 0) | (table.both_ways > 0)):
        shares, pair = _taken_apart(table, c, joins, (forward, backward), (embedding, head))
    idle = np.maximum(whole - slowest, 0.0) * idle_share(table, shares)
    if joins != IN_TURN and shares is not PLAIN:
        apart = (table.put_off > 0) | (table.both_ways > 0)
        idle = np.where(apart, _idle_s(table, c, joins, gather, (embedding, head)), idle)
    bubble = np.where(table.pp > 1, c.bubble * idle, 0.0)
    transfer = transfers_s(table, c, links, micro_batches)
    alone = joins == IN_TURN
    hidden = np.zeros_like(table.overlap) if alone else hidden_gradients(table, c)
    gradients = _gradients(table, links, hidden, table.most_layers * layer)
    optimizer = _optimizer(table, c)
    other = np.broadcast_to(np.asarray(c.step_s), slowest.shape)
    steady = steady_s(table, micro_batches, slowest, pair)
    total = steady + bubble + transfer + gradients + optimizer + other
    return StepTimes(
        total, steady, bubble, transfer, gradients, optimizer, other, forward, backward, gather
    )


def _way(
    table: RunTable, layer: FloatArray, ends: tuple[FloatArray, FloatArray], host_s: float
) -> tuple[FloatArray, FloatArray]:
    """Seconds of a micro-batch in the slowest stage, and in all stages together.

    Where micro-batches enter at both ends, a device works on two opposite stages in turn.
    """
    embedding, head = ends
    first = table.first_layers * layer + embedding
    last = table.last_layers * layer + head
    single = table.layers * layer + embedding + head
    outer = np.where(table.both_ways > 0, (first + last) / 2.0, np.maximum(first, last))
    fullest = np.maximum(outer, table.most_layers * layer)
    slowest = np.where(table.pp > 1, fullest, single) + host_s
    return slowest, single + table.pp * host_s


def _taken_apart(
    table: RunTable,
    c: StepConstants,
    joins: Joins,
    passes: tuple[FloatArray, FloatArray],
    ends: tuple[FloatArray, FloatArray],
) -> tuple[Shares, FloatArray]:
    """Parts of a micro-batch's way, and seconds of a forward and a backward pass that run
    interleaved in the slowest stage: the longer of what they compute and what they send.
    """
    (forward, backward), (embedding, head) = passes, ends
    layer, host_s, nothing = forward + backward, c.host_micro_s, np.zeros_like(embedding)
    predicting = further_layers(table)
    layers = table.layers + predicting
    _, whole = _way(table, layer, ends, host_s)
    silent = _layer_passes(*_silent(table, c), Links.of(c), joins)
    sent = np.where(table.both_ways > 0, layer - silent[0] - silent[1], 0.0)
    sent = np.zeros_like(sent) if joins == IN_TURN else sent
    computing = _way(table, layer - sent, (embedding, head - predicting * sent), host_s)
    sending = _way(table, sent, (nothing, predicting * sent), 0.0)
    pair, pairs = (np.maximum(*both) for both in zip(computing, sending, strict=True))
    head = head - predicting * layer
    behind = embedding / 2.0 + (1.0 - HEAD_FORWARD) * head + table.pp * host_s / 2.0
    weight = layers * weight_s(table, c, joins) + behind / 2.0
    return Shares((layers * backward + behind) / whole, weight / whole, pairs / whole), pair


def _idle_s(
    table: RunTable,
    c: StepConstants,
    joins: Joins,
    gather: FloatArray,
    ends: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Seconds of the bubble that gradients of weights do not fill.

    What is left of the passes without them is joined as passes are: of what the device does, of
    what the host issues and of what is gathered and reduced each the part that is not put off.
    Differences of joined times would grow where one of them shrinks: a faster chip would be slower.
    """
    quiet = table.with_columns({"zero_stage": np.zeros_like(table.zero_stage)})
    still = replace(c, host_s=0.0, host_tp_s=0.0, host_micro_s=0.0, expert_host_s=0.0)
    forward, backward, _ = _layer_passes(quiet, still, Links.of(c), joins)
    slowest, whole = _way(table, forward + backward, ends, 0.0)
    shares, _ = _taken_apart(quiet, still, joins, (forward, backward), ends)
    device = np.maximum(whole - slowest, 0.0) * idle_share(table, shares)
    # In passes: a forward one is issued and gathered once, a backward one gathers and reduces.
    again = 1.0 + table.recompute_full
    put_off = put_off_share(table)
    host = np.where(table.both_ways > 0, 1.0 + 2.0 * again - 1.5, 1.0 + again - put_off / 2.0)
    moved = np.where(table.both_ways > 0, 2.0, 3.0 - put_off)
    half = (table.pp / 2.0 - 1.0) / np.maximum(table.pp - 1.0, 1.0)
    layers = (table.layers - table.most_layers) * np.where(table.both_ways > 0, half, 1.0)
    issued = layers * host * host_s(table, c)
    return beside_s(_joined(device, issued, joins.host), layers * moved * gather, c, joins)


def _silent(table: RunTable, c: StepConstants) -> tuple[RunTable, StepConstants]:
    """The same runs if all communication inside layers were hidden."""
    hidden = dict.fromkeys(("tp_hidden", "ep_hidden", "cp_hidden"), 1.0)
    overlapped = table.with_columns({"ep_overlap": np.ones_like(table.ep_overlap)})
    return overlapped, replace(c, **hidden)


def weight_s(table: RunTable, c: StepConstants, joins: Joins) -> FloatArray:
    """Seconds of the gradients of the weights of a mean layer: half of what its backward pass
    computes, for they take as long as those of its inputs in every product.
    """
    off = ("recompute_full", "recompute_core", "zero_stage")
    alone = table.with_columns({name: np.zeros_like(table.hidden) for name in off})
    _, backward, _ = _layer_passes(*_silent(alone, c), Links.of(c), joins)
    return backward / 2.0


def _joined(device: FloatArray, host: FloatArray | float, sharpness: float) -> FloatArray:
    """The larger of two times that run beside each other, a little more where they are equal."""
    return (device**sharpness + np.asarray(host) ** sharpness) ** (1.0 / sharpness)


def _layer_passes(
    table: RunTable, c: StepConstants, links: Links, joins: Joins
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Seconds of the forward and the backward pass of one micro-batch through a mean layer, and of
    gathering its sharded parameters for one of them.
    """
    dense, moe, bare = layer_times(table, c)
    routed, single, alone = routed_share(table), dense_share(table), table.mixing.bare
    shared, scattered = (
        tensor_parallel_s(table, c, links, routed),
        expert_exchange_s(table, c, links),
    )
    ring = context_parallel_s(table, c, links)
    communication = shared + routed * scattered + ring
    mixed_forward = single * dense.forward + routed * moe.forward + alone * bare.forward
    mixed_backward = single * dense.backward + routed * moe.backward + alone * bare.backward
    device_forward = mixed_forward + communication
    last = single * dense.last + routed * moe.last + alone * bare.last
    kept = (1 - routed) * (dense.inward + dense.core) + routed * (moe.inward + moe.core)
    repeated = device_forward - table.early_stop * last - table.keeps_attention * kept
    again = table.recompute_full * repeated + table.recompute_core * dense.core
    device_backward = mixed_backward + communication + ring + again
    host = host_s(table, c)
    host_backward = host * (1.0 + table.recompute_full)
    forward = _joined(device_forward, host, joins.host)
    backward = _joined(device_backward, host_backward, joins.host)
    return _sharded(table, c, links, joins, forward, backward)


def _sharded(
    table: RunTable,
    c: StepConstants,
    links: Links,
    joins: Joins,
    forward: FloatArray,
    backward: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Both passes beside the gathering of sharded parameters and the reduction of gradients, and
    what gathers the parameters once.
    """
    if not np.any(table.zero_stage >= _FULLY_SHARDED):
        return forward, backward, np.zeros_like(forward)
    size = np.where(table.zero_group > 0, table.zero_group, replicas_of(table))
    members = group(table, size, table.tp)
    nbytes = 2.0 * gathered_parameters(table)
    gather = all_gather_s(table, links, nbytes, members)
    shared = table.zero_stage >= _FULLY_SHARDED
    gather = np.where(shared & (table.gather_once == 0), gather, 0.0)
    fetch = beside_s(forward, gather, c, joins)
    both = beside_s(backward, 2.0 * gather, c, joins)
    return np.where(shared, fetch, forward), np.where(shared, both, backward), gather


def beside_s(
    alone: FloatArray, moved: FloatArray, c: StepConstants, joins: Joins = BESIDE
) -> FloatArray:
    """Seconds of a pass beside the transfers of sharded parameters and their gradients."""
    return _joined(alone, moved, joins.fetch) + c.fetch_shown * moved


def hidden_gradients(table: RunTable, c: StepConstants) -> FloatArray:
    """Share of the exchange of gradients and parameters that software sends beside the passes.

    Where parameters are sharded layer by layer, so are gradients reduced, between groups of ranks
    too (hybrid sharding): as much shows as of gathering.
    """
    layered = (table.zero_stage >= _FULLY_SHARDED) & (table.gather_once == 0)
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
    beside = (table.zero_stage >= _FULLY_SHARDED) & (table.gather_once == 0)
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
