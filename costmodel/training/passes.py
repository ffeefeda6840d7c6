"""Seconds of the passes of one micro-batch through a mean layer, and what they hide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.training.communication import Links, all_gather_s, group
from costmodel.training.exchanges import context_parallel_s, expert_exchange_s, tensor_parallel_s
from costmodel.training.host import host_s
from costmodel.training.layers import layer_times
from costmodel.training.sizes import dense_share, gathered_parameters, replicas_of, routed_share

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "BESIDE",
    "FULLY_SHARDED",
    "IN_TURN",
    "Computing",
    "Joins",
    "LayerPasses",
    "beside_s",
    "computing",
    "joined_s",
    "layer_passes",
    "silent",
]  # fmt: skip

FULLY_SHARDED = 3
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


class LayerPasses(NamedTuple):
    """Seconds of one micro-batch and one mean layer, each of shape (N,)."""

    forward: FloatArray
    backward: FloatArray
    """With what is computed again."""

    gather: FloatArray
    """Gathering sharded parameters for one of the passes, which is a part of them."""

    @property
    def both(self) -> FloatArray:
        """Forward and backward."""
        return self.forward + self.backward


class Computing(NamedTuple):
    """Seconds that one device computes for one micro-batch and one mean layer, of shape (N,).

    Neither what is sent nor the host nor recomputation changes them.
    """

    forward: FloatArray
    backward: FloatArray
    weights: FloatArray
    """The gradients of weights, a part of the backward pass; attention, normalisations and
    activations have none."""

    last: FloatArray
    """The last forward product."""

    kept: FloatArray
    """Forward, what need not be computed again where attention is kept."""

    core: FloatArray
    """Attention of a dense layer, forward."""

    @property
    def weight_share(self) -> FloatArray:
        """Share of the gradients of weights in the backward pass."""
        return self.weights / self.backward


def computing(table: RunTable, c: StepConstants) -> Computing:
    """Price what the runs of a table compute."""
    dense, moe, bare = layer_times(table, c)
    routed, single, alone = routed_share(table), dense_share(table), table.mixing.bare
    return Computing(
        forward=single * dense.forward + routed * moe.forward + alone * bare.forward,
        backward=single * dense.backward + routed * moe.backward + alone * bare.backward,
        weights=single * dense.weights + routed * moe.weights + alone * bare.weights,
        last=single * dense.last + routed * moe.last + alone * bare.last,
        kept=(1 - routed) * (dense.inward + dense.core) + routed * (moe.inward + moe.core),
        core=dense.core,
    )


def layer_passes(table: RunTable, c: StepConstants, joins: Joins, own: Computing) -> LayerPasses:
    """Price the passes of the runs of a table.

    Args:
        table: the runs.
        c: what machine and software reach.
        joins: how times that run beside each other are joined.
        own: what the runs compute.
    """
    links = Links.of(c)
    routed = routed_share(table)
    shared, scattered = (
        tensor_parallel_s(table, c, links, routed),
        expert_exchange_s(table, c, links),
    )
    ring = context_parallel_s(table, c, links)
    communication = shared + routed * scattered + ring
    device_forward = own.forward + communication
    repeated = device_forward - table.early_stop * own.last - table.keeps_attention * own.kept
    again = table.recompute_full * repeated + table.recompute_core * own.core
    device_backward = own.backward + communication + ring + again
    host = host_s(table, c)
    host_backward = host * (1.0 + table.recompute_full)
    forward = joined_s(device_forward, host, joins.host)
    backward = joined_s(device_backward, host_backward, joins.host)
    return _sharded(table, c, links, joins, forward, backward)


def _sharded(
    table: RunTable,
    c: StepConstants,
    links: Links,
    joins: Joins,
    forward: FloatArray,
    backward: FloatArray,
) -> LayerPasses:
    """Both passes beside the gathering of sharded parameters and the reduction of gradients, and
    what gathers the parameters once.
    """
    if not np.any(table.zero_stage >= FULLY_SHARDED):
        return LayerPasses(forward, backward, np.zeros_like(forward))
    size = np.where(table.zero_group > 0, table.zero_group, replicas_of(table))
    members = group(table, size, table.tp)
    nbytes = 2.0 * gathered_parameters(table)
    gather = all_gather_s(table, links, nbytes, members)
    shared = table.zero_stage >= FULLY_SHARDED
    gather = np.where(shared & (table.gather_once == 0), gather, 0.0)
    fetch = beside_s(forward, gather, c, joins)
    both = beside_s(backward, 2.0 * gather, c, joins)
    return LayerPasses(np.where(shared, fetch, forward), np.where(shared, both, backward), gather)


def beside_s(
    alone: FloatArray, moved: FloatArray, c: StepConstants, joins: Joins = BESIDE
) -> FloatArray:
    """Seconds of a pass beside the transfers of sharded parameters and their gradients."""
    return joined_s(alone, moved, joins.fetch) + c.fetch_shown * moved


def joined_s(device: FloatArray, host: FloatArray | float, sharpness: float) -> FloatArray:
    """The larger of two times that run beside each other, a little more where they are equal."""
    return (device**sharpness + np.asarray(host) ** sharpness) ** (1.0 / sharpness)


def silent(table: RunTable, c: StepConstants) -> tuple[RunTable, StepConstants]:
    """The same runs if all communication inside layers were hidden."""
    hidden = dict.fromkeys(("tp_hidden", "ep_hidden", "cp_hidden"), 1.0)
    overlapped = table.with_columns({"ep_overlap": np.ones_like(table.ep_overlap)})
    return overlapped, replace(c, **hidden)
