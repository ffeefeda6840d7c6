"""Seconds of a step in the stages of a pipeline: at work, and waiting for one another.

The stage that everything waits for is the one with the largest m t + i: m micro-batches of t
seconds, and i what it idles while one of them passes all other stages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.training.ends import HEAD_FORWARD, trained_ends_s
from costmodel.training.host import host_s
from costmodel.training.passes import (
    IN_TURN,
    Computing,
    Joins,
    LayerPasses,
    beside_s,
    joined_s,
    layer_passes,
    silent,
)
from costmodel.training.schedule_forms import (
    Elsewhere,
    alone_batches,
    idle_s,
    put_off_share,
    steady_s,
)
from costmodel.training.sizes import further_layers, gathered_parameters, head_tables

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["PipelineTimes", "pipeline_times", "weight_s"]


class PipelineTimes(NamedTuple):
    """Seconds, each of shape (N,)."""

    steady: FloatArray
    """The stage that all wait for at work on all micro-batches."""

    idle: FloatArray
    """That stage while the pipeline fills and drains."""


@dataclass(frozen=True, slots=True)
class _Way:
    """Seconds of something that every micro-batch meets on its way through all stages."""

    layer: FloatArray | float
    embedding: FloatArray | float
    head: FloatArray | float
    """With the layers that predict further tokens."""

    stage: float = 0.0
    """In every stage besides."""

    def within(self, table: RunTable) -> FloatArray:
        """What the first, the last and a middle stage have of it, shape (3, N).

        Where micro-batches enter at both ends, a device works on two opposite stages in turn.
        """
        first = table.first_layers * self.layer + self.embedding
        last = table.last_layers * self.layer + self.head
        both = (first + last) / 2.0
        ends = [np.where(table.both_ways > 0, both, end) for end in (first, last)]
        stages = np.stack([*ends, table.most_layers * self.layer])
        return np.where(table.pp > 1, stages, self._whole(table)) + self.stage

    def elsewhere(self, table: RunTable) -> FloatArray:
        """What all other stages have of it, shape (3, N)."""
        whole = self._whole(table) + table.pp * self.stage
        return np.maximum(whole - self.within(table), 0.0)

    def _whole(self, table: RunTable) -> FloatArray:
        return table.layers * self.layer + self.embedding + self.head


def pipeline_times(
    table: RunTable, c: StepConstants, joins: Joins, own: Computing, passes: LayerPasses
) -> PipelineTimes:
    """Price the stages of the runs of a table.

    What embedding and head gather and reduce of sharded parameters counts where nothing overlaps;
    beside their passes all of it is hidden.

    Args:
        table: the runs.
        c: what machine and software reach.
        joins: how times that run beside each other are joined.
        own: what a mean layer computes.
        passes: of a mean layer.
    """
    pipe = _Pipe(table, c, joins, own, trained_ends_s(table, c), passes)
    within = pairs = pipe.way.within(table)
    idle = pipe.way.elsewhere(table) / table.vpp
    apart = (table.put_off > 0) | (table.both_ways > 0)
    if np.any(apart):
        pairs = np.maximum(*(each.within(table) for each in pipe.pairs()))
        taken = _idle_in_turn(pipe) if joins == IN_TURN else _idle_beside(pipe)
        idle = np.where(apart, taken, idle)
    idle = np.where(table.pp > 1, c.bubble * idle, 0.0)
    steady = steady_s(table, within, pairs)
    longest = np.argmax(steady + idle, axis=0)[None]
    return PipelineTimes(*(np.take_along_axis(each, longest, 0)[0] for each in (steady, idle)))


@dataclass(frozen=True, slots=True)
class _Pipe:
    table: RunTable
    c: StepConstants
    joins: Joins
    own: Computing
    ends: tuple[FloatArray, FloatArray]
    passes: LayerPasses

    @property
    def way(self) -> _Way:
        """Forward and backward pass of a micro-batch."""
        table, (embedding, head) = self.table, self.ends
        if self.joins == IN_TURN:
            shared = 3.0 * self.passes.gather * table.vocab * table.hidden / table.tp
            shared = shared / gathered_parameters(table)
            embedding, head = embedding + shared, head + head_tables(table) * shared
        head = head + further_layers(table) * self.passes.both
        return _Way(self.passes.both, embedding, head, self.c.host_micro_s)

    def priced(self, table: RunTable, c: StepConstants) -> _Pipe:
        """The same for runs and constants with which devices compute as long."""
        passes = layer_passes(table, c, self.joins, self.own)
        return replace(self, table=table, c=c, passes=passes)

    def alone(self) -> _Pipe:
        """The same if the host took no time and all parameters were at hand."""
        quiet = self.table.with_columns({"zero_stage": np.zeros_like(self.table.zero_stage)})
        still = dict.fromkeys(("host_s", "host_tp_s", "host_micro_s", "expert_host_s"), 0.0)
        return self.priced(quiet, replace(self.c, **still))

    def sent(self) -> FloatArray:
        """What communication inside a layer adds to its passes."""
        return self.passes.both - self.priced(*silent(self.table, self.c)).passes.both

    def pairs(self) -> tuple[_Way, _Way]:
        """What a forward and a backward pass that run interleaved compute, and what they send.

        What is sent is priced without a host and without what is gathered, beside which less of it
        is seen: less to gather would be more to send.
        """
        if self.joins == IN_TURN:
            return self.way, _Way(0.0, 0.0, 0.0)
        way, heard, sent = self.way, self.sent(), self.alone().sent()
        predicting = further_layers(self.table)
        silenced = replace(way, layer=way.layer - heard, head=way.head - predicting * heard)
        return silenced, _Way(sent, 0.0, predicting * sent)

    def backward(self) -> _Way:
        """Backward passes."""
        way, predicting = self.way, further_layers(self.table)
        head = (1.0 - HEAD_FORWARD) * (way.head - predicting * way.layer)
        head = head + predicting * self.passes.backward
        return _Way(self.passes.backward, way.embedding / 2.0, head, way.stage / 2.0)

    def weights(self) -> _Way:
        """Gradients of weights; half of what both ends do backward."""
        back, predicting = self.backward(), further_layers(self.table)
        layer_s = weight_s(self.table, self.c, self.joins, self.own)
        head = (back.head - predicting * back.layer) / 2.0 + predicting * layer_s
        return _Way(layer_s, back.embedding / 2.0, head, back.stage / 2.0)


def _idle_in_turn(pipe: _Pipe) -> FloatArray:
    """Seconds that the first, the last and a middle stage idle, shape (3, N), by the closed form
    of the order.
    """
    table = pipe.table
    pairs = np.maximum(*(each.elsewhere(table) for each in pipe.pairs()))
    ways = (pipe.way, pipe.backward(), pipe.weights())
    whole, back, own = (each.elsewhere(table) for each in ways)
    return idle_s(table, Elsewhere(whole, back, own, pairs))


def _idle_beside(pipe: _Pipe) -> FloatArray:
    """The same where passes run beside what the host issues and what is gathered and reduced.

    What is left of the passes without gradients of weights is joined as passes are: of what the
    device does, of what the host issues and of what is gathered and reduced each the part that is
    not put off. Differences of joined times would grow where one of them shrinks: a faster chip
    would be slower. With micro-batches from both ends passes that run alone are joined with it, for
    the shorter they are, the less of what pairs send is filled.
    """
    table, c, joins, quiet = pipe.table, pipe.c, pipe.joins, pipe.alone()
    both_ways = table.both_ways > 0
    # In passes: a forward one is issued and gathered once, a backward one gathers and reduces.
    again, put_off = 1.0 + table.recompute_full, put_off_share(table)
    host = np.where(both_ways, 1.0 + 2.0 * again - 1.5, 1.0 + again - put_off / 2.0)
    moved = np.where(both_ways, 2.0, 3.0 - put_off)
    half = (table.pp / 2.0 - 1.0) / np.maximum(table.pp - 1.0, 1.0)
    layers = _Way(1.0, 0.0, further_layers(table))
    idle_layers = layers.elsewhere(table) * np.where(both_ways, half, 1.0)
    alone = np.where(both_ways, alone_batches(table), 0.0)
    own_layers = alone * layers.within(table)
    device = _idle_in_turn(quiet) + alone * quiet.way.within(table)
    issued = (idle_layers * host + own_layers * (1.0 + again)) * host_s(table, c)
    gathered = (idle_layers * moved + own_layers * 3.0) * pipe.passes.gather
    whole = beside_s(joined_s(device, issued, joins.host), gathered, c, joins)
    within = replace(pipe.way, stage=0.0).within(table)
    return np.maximum(whole - alone * within, 0.0)


def weight_s(table: RunTable, c: StepConstants, joins: Joins, own: Computing) -> FloatArray:
    """Seconds of the gradients of the weights of a mean layer."""
    off = ("recompute_full", "recompute_core", "zero_stage")
    alone = table.with_columns({name: np.zeros_like(table.hidden) for name in off})
    return layer_passes(*silent(alone, c), joins, own).backward * own.weight_share
