"""Seconds of a step in the stages of a pipeline: at work, and waiting for one another.

The stage that everything waits for is the one with the largest m t + i: m micro-batches of t
seconds, and i what it idles while one of them passes all other stages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.schedules.closed_form import Elsewhere
from costmodel.training.ends import HEAD_FORWARD, trained_ends_s
from costmodel.training.passes import IN_TURN, joined_s, overlapped_s
from costmodel.training.sizes import gathered_parameters, head_tables, mtp_layers

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.passes import LayerTerms
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["PipelineTimes", "pipeline_times"]


class PipelineTimes(NamedTuple):
    """Seconds, each of shape (N,)."""

    steady: FloatArray
    """The stage that all wait for at work on all micro-batches."""

    idle: FloatArray
    """That stage while the pipeline fills and drains."""


def pipeline_times(table: RunTable, c: StepConstants, layer: LayerTerms) -> PipelineTimes:
    """Price the stages of the runs of a table.

    What embedding and head gather and reduce of sharded parameters counts where nothing overlaps;
    beside their passes all of it is hidden.

    Args:
        table: the runs.
        c: what machine and software reach.
        layer: what a mean layer takes.
    """
    micro, order = _micro_batch(table, c, layer), table.pipelines
    within = pairs = micro.both.within(table)
    idle = micro.both.elsewhere(table) / table.vpp
    if np.any(order.apart):
        pairs = np.maximum(*(each.within(table) for each in micro.pair))
        in_turn = layer.joins == IN_TURN
        taken = _closed_form_idle_s(micro) if in_turn else _idle_beside_host_s(micro)
        idle = np.where(order.apart, taken, idle)
    idle = np.where(table.pp > 1, c.bubble * idle, 0.0)
    steady = order.steady_s(within, pairs)
    longest = np.argmax(steady + idle, axis=0)[None]
    return PipelineTimes(*(np.take_along_axis(each, longest, 0)[0] for each in (steady, idle)))


@dataclass(frozen=True, slots=True)
class _Stagewise:
    """Seconds of something that every micro-batch meets on its way through all stages."""

    layer: FloatArray | float
    embedding: FloatArray | float
    head: FloatArray | float
    """With the multi-token prediction layers."""

    stage: float = 0.0
    """In every stage besides."""

    def within(self, table: RunTable) -> FloatArray:
        """What the first, the last and a middle stage have of it, shape (3, N).

        Where micro-batches enter at both ends, a device works on two opposite stages in turn.
        """
        first = table.first_layers * self.layer + self.embedding
        last = table.last_layers * self.layer + self.head
        both = (first + last) / 2.0
        ends = [np.where(table.bidirectional > 0, both, end) for end in (first, last)]
        stages = np.stack([*ends, table.most_layers * self.layer])
        return np.where(table.pp > 1, stages, self._whole(table)) + self.stage

    def elsewhere(self, table: RunTable) -> FloatArray:
        """What all other stages have of it, shape (3, N)."""
        whole = self._whole(table) + table.pp * self.stage
        return np.maximum(whole - self.within(table), 0.0)

    def _whole(self, table: RunTable) -> FloatArray:
        return table.layers * self.layer + self.embedding + self.head


class _Shares(NamedTuple):
    """What a part of both passes has of what is not in a layer."""

    embedding: float
    head: float
    stage: float


_BOTH, _SENT = _Shares(1.0, 1.0, 1.0), _Shares(0.0, 0.0, 0.0)
_BACKWARD = _Shares(1 / 2, 1.0 - HEAD_FORWARD, 1 / 2)
_WEIGHTS = _Shares(*(share / 2.0 for share in _BACKWARD))
"""Half of what both ends do backward."""


@dataclass(frozen=True, slots=True)
class _MicroBatch:
    """What one micro-batch takes on its way, in the terms of a mean layer and of both ends."""

    table: RunTable
    layer: LayerTerms
    embedding: FloatArray
    head: FloatArray
    """Without the multi-token prediction layers."""

    host_s: float
    """In every stage, for what a micro-batch needs outside the layers."""

    @property
    def both(self) -> _Stagewise:
        """Forward and backward pass."""
        return self._through(self.layer.passes.both, _BOTH)

    @property
    def pair(self) -> tuple[_Stagewise, _Stagewise]:
        """What a forward and a backward pass that run interleaved compute, and what they send.

        What is sent is what it adds to passes without a host and without what is gathered, beside
        which less of it is seen: less to gather would be more to send.
        """
        if self.layer.joins == IN_TURN:
            return self.both, self._through(0.0, _SENT)
        alone = self.layer.alone()
        sent = alone.passes.both - alone.silent().passes.both
        return replace(self, layer=self.layer.silent()).both, self._through(sent, _SENT)

    def elsewhere(self) -> Elsewhere:
        """What the stages beside one take."""
        pair = np.maximum(*(each.elsewhere(self.table) for each in self.pair))
        backward = self._through(self.layer.passes.backward, _BACKWARD)
        weights = self._through(self.layer.weights_s, _WEIGHTS)
        both, back, own = (each.elsewhere(self.table) for each in (self.both, backward, weights))
        return Elsewhere(both, back, own, pair)

    def _through(self, layer_s: FloatArray | float, shares: _Shares) -> _Stagewise:
        return _Stagewise(
            layer_s,
            shares.embedding * self.embedding,
            shares.head * self.head + mtp_layers(self.table) * layer_s,
            shares.stage * self.host_s,
        )


def _micro_batch(table: RunTable, c: StepConstants, layer: LayerTerms) -> _MicroBatch:
    embedding, head = trained_ends_s(table, c)
    if layer.joins == IN_TURN:
        shared = 3.0 * layer.gather * table.vocab * table.hidden / table.tp
        # Alone, what the ends send is among the messages of a step, tensor by tensor.
        shared = np.where(table.alone > 0, 0.0, shared / sum(gathered_parameters(table)))
        embedding, head = embedding + shared, head + head_tables(table) * shared
    return _MicroBatch(table, layer, embedding, head, c.host_micro_s)


def _closed_form_idle_s(micro: _MicroBatch) -> FloatArray:
    """Seconds that the first, the last and a middle stage idle, shape (3, N), by the closed form
    of the order.
    """
    return micro.table.pipelines.idle_s(micro.elsewhere())


def _idle_beside_host_s(micro: _MicroBatch) -> FloatArray:
    """The same where passes run beside what the host issues and what is gathered and reduced.

    What is left of the passes without gradients of weights is joined as passes are: of what the
    device does, of what the host issues and of what is gathered and reduced each the part that is
    not deferred. Differences of joined times would grow where one of them shrinks: a faster chip
    would be slower. With micro-batches from both ends passes that run alone are joined with it, for
    the shorter they are, the less of what pairs send is filled.
    """
    table, layer, order = micro.table, micro.layer, micro.table.pipelines
    device_alone = replace(micro, layer=layer.alone(), host_s=0.0)
    bidirectional = table.bidirectional > 0
    # In passes: a forward one is issued and gathered once, a backward one gathers and reduces.
    again, deferred = 1.0 + table.recompute_full, order.deferred_share
    host = np.where(bidirectional, 1.0 + 2.0 * again - 1.5, 1.0 + again - deferred / 2.0)
    moved = np.where(bidirectional, 2.0, 3.0 - deferred)
    layers = _Stagewise(1.0, 0.0, mtp_layers(table))
    idle_layers = layers.elsewhere(table) * np.where(bidirectional, order.half, 1.0)
    unpaired = np.where(bidirectional, order.unpaired, 0.0)
    own_layers = unpaired * layers.within(table)
    device = _closed_form_idle_s(device_alone) + unpaired * device_alone.both.within(table)
    issued = (idle_layers * host + own_layers * (1.0 + again)) * layer.host
    gathered = (idle_layers * moved + own_layers * 3.0) * layer.gather
    whole = joined_s(device, issued, layer.joins.host)
    whole = overlapped_s(whole, gathered, layer.gather_shown, layer.joins)
    within = replace(micro, host_s=0.0).both.within(table)
    return np.maximum(whole - unpaired * within, 0.0)
