"""Seconds of the passes of one micro-batch through a mean layer, and what they hide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.training.communication import (
    context_parallel_s,
    expert_exchange_s,
    tensor_parallel_s,
)
from costmodel.training.layers import experts_issued, layer_times
from costmodel.training.links import Group, links_of
from costmodel.training.parameter_messages import gathered_alone_s
from costmodel.training.sizes import (
    dense_share,
    expert_parts,
    expert_replicas,
    gathered_parameters,
    held_parameters,
    routed_share,
    sharing_group,
)
from costmodel.training.states import FULLY_SHARDED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from costmodel.training.constants import StepConstants
    from costmodel.training.links import Links
    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "BESIDE",
    "IN_TURN",
    "Computing",
    "Joins",
    "LayerPasses",
    "LayerTerms",
    "computing",
    "joined_s",
    "layer_terms",
    "overlapped_s",
]  # fmt: skip

_SUM_BYTES = 4.0
"""Of a gradient that micro-batches add up, where a run does not say."""

_SOFTMAX = 0.4
"""Share of a layer's kernels that softmax alone is where no fused one is taken (assumed)."""


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
    backward = single * dense.backward + routed * moe.backward + alone * bare.backward
    return Computing(
        forward=single * dense.forward + routed * moe.forward + alone * bare.forward,
        backward=backward + _summing_s(table, c),
        weights=single * dense.weights + routed * moe.weights + alone * bare.weights,
        last=single * dense.last + routed * moe.last + alone * bare.last,
        kept=(1 - routed) * (dense.inward + dense.core) + routed * (moe.inward + moe.core),
        core=dense.core,
    )


def _summing_s(table: RunTable, c: StepConstants) -> FloatArray:
    """Seconds to add the gradients of a mean layer to those of the micro-batches before, where that
    is no part of the products: 16 bits are read, what they add up to is read and written.
    """
    kept = np.where(table.gradient_bytes > 0, table.gradient_bytes, _SUM_BYTES)
    moved = (2.0 + 2.0 * kept) * held_parameters(table)
    summed = table.sums_apart * (table.frozen == 0)
    return np.asarray(summed * table.machine.stream_s(moved) / c.memory)


@dataclass(frozen=True, slots=True)
class LayerTerms:
    """What a mean layer takes for one micro-batch, cause by cause; seconds of shape (N,).

    Each is priced once. `passes` joins them: what the device computes and waits for, beside what
    the host issues, beside what is gathered and reduced of sharded parameters. What one of them
    adds is the difference to passes in which it takes no time.
    """

    table: RunTable
    joins: Joins
    own: Computing
    sent: FloatArray
    """Communication of a forward pass that computation waits for."""

    ring: FloatArray
    """Of it the exchange of context parallel ranks; a backward pass has it twice, unless keys and
    values are kept."""

    host: FloatArray
    """In which the host issues a forward pass."""

    gather: FloatArray
    """Gathering sharded parameters for one pass, or reducing their gradients."""

    gather_shown: float
    """Share of that which slows computation even where it fits beside it."""

    sharded: NDArray[np.bool_]
    """Where parameters rest in shards."""

    def silent(self) -> LayerTerms:
        """The same if all communication inside layers were hidden."""
        nothing = np.zeros_like(self.sent)
        return replace(self, sent=nothing, ring=nothing)

    def alone(self) -> LayerTerms:
        """The same if the host took no time and all parameters were at hand."""
        nothing = np.zeros_like(self.sent)
        here = np.zeros_like(self.sharded)
        return replace(self, host=nothing, gather=nothing, sharded=here)

    @property
    def passes(self) -> LayerPasses:
        """Both passes."""
        table, own = self.table, self.own
        forward = own.forward + self.sent
        repeated = forward - table.early_stop * own.last - table.keeps_attention * own.kept
        again = table.recompute_full * repeated + table.recompute_core * own.core
        more = np.where(table.alone > 0, 0.0, self.ring)
        backward = own.backward + self.sent + more + again
        issued = self.host * (1.0 + table.recompute_full)
        forward = joined_s(forward, self.host, self.joins.host)
        backward = joined_s(backward, issued, self.joins.host)
        if not np.any(self.sharded):
            return LayerPasses(forward, backward)
        fetch = overlapped_s(forward, self.gather, self.gather_shown, self.joins)
        both = overlapped_s(backward, 2.0 * self.gather, self.gather_shown, self.joins)
        return LayerPasses(
            np.where(self.sharded, fetch, forward), np.where(self.sharded, both, backward)
        )

    @property
    def weights_s(self) -> FloatArray:
        """The gradients of the weights, where nothing is sent, gathered or computed again."""
        return joined_s(self.own.backward, self.host, self.joins.host) * self.own.weight_share


def layer_terms(
    table: RunTable, c: StepConstants, joins: Joins = BESIDE, own: Computing | None = None
) -> LayerTerms:
    """Price a mean layer of the runs of a table.

    Args:
        table: the runs.
        c: what machine and software reach.
        joins: how times that run beside each other are joined.
        own: what the runs compute, where that is known.
    """
    links, routed = links_of(table, c), routed_share(table)
    shared = tensor_parallel_s(table, c, links, routed)
    ring = context_parallel_s(table, c, links)
    sharded = table.zero_stage >= FULLY_SHARDED
    return LayerTerms(
        table=table,
        joins=joins,
        own=computing(table, c) if own is None else own,
        sent=shared + routed * expert_exchange_s(table, c, links) + ring,
        ring=ring,
        host=_host_s(table, c),
        gather=_gather_s(table, links, sharded),
        gather_shown=c.fetch_shown,
        sharded=sharded,
    )


def _host_s(table: RunTable, c: StepConstants) -> FloatArray:
    """Seconds in which the host issues the kernels of the forward pass of a mean layer.

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


def _gather_s(table: RunTable, links: Links, sharded: NDArray[np.bool_]) -> FloatArray:
    """Seconds to gather the parameters of a layer that rest in shards; none where they are gathered
    once in a step. Experts are a message of their own where other devices have the same of them.
    """
    if not np.any(sharded):
        return np.zeros_like(table.zero_stage)
    dense, routed = gathered_parameters(table)
    size, spread = sharing_group(table), expert_parts(table) * table.ep
    together = spread == table.tp
    nbytes = 2.0 * (dense + np.where(together, routed, 0.0))
    gather = links.all_gather_s(nbytes, Group(size, table.tp))
    apart = np.where(together, 0.0, routed)
    copies = np.maximum(expert_replicas(table, size), 1.0)
    experts = links.all_gather_s(2.0 * apart, Group(copies, spread))
    gather = gather + np.where(apart > 0, experts, 0.0)
    if np.any(table.alone > 0):
        gather = np.where(table.alone > 0, gathered_alone_s(table, links), gather)
    return np.where(sharded & (table.gather_once == 0), gather, 0.0)


def overlapped_s(
    alone: FloatArray, moved: FloatArray, shown: float, joins: Joins = BESIDE
) -> FloatArray:
    """Seconds of a pass beside the transfers of sharded parameters and their gradients, of which a
    share is shown even where it fits.
    """
    return joined_s(alone, moved, joins.fetch) + shown * moved


def joined_s(device: FloatArray, host: FloatArray | float, sharpness: float) -> FloatArray:
    """The larger of two times that run beside each other, a little more where they are equal."""
    return (device**sharpness + np.asarray(host) ** sharpness) ** (1.0 / sharpness)
