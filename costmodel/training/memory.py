"""Memory of the fullest device in a training step, by cause, for many layouts at once.

States follow Rajbhandari et al., arXiv 1910.02054; activations are counted tensor by tensor as in
Korthikanti et al., arXiv 2205.05198, with gated layers, grouped heads and routed experts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.memory import MOMENT_BYTES, Precision
from costmodel.training.layers import tokens
from costmodel.training.sizes import (
    dense_share,
    gathered_parameters,
    head_tables,
    lacking_layers,
    mtp_layers,
    routed_share,
)
from costmodel.training.states import FULLY_SHARDED, state_bytes

if TYPE_CHECKING:
    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "HeldLogits",
    "MemoryConstants",
    "MemoryUse",
    "charged_bytes",
    "gathered_bytes",
    "held_logits",
    "layer_bytes",
    "logit_bytes",
    "memory_use",
    "reported_bytes",
]


@dataclass(frozen=True, slots=True)
class MemoryConstants:
    """What a software profile keeps."""

    gradient_bytes: float = 4.0
    """Bytes of an accumulated gradient; see `Precision`, as for the next one."""

    moment_bytes: float = MOMENT_BYTES

    activations: float = 1.0
    """Activations kept over the count of tensors that the backward pass needs."""

    selective_kept: float = 1.0
    """Share of the saved tensors that selective recomputation leaves, attention's scores aside."""

    products_kept: float = 0.0
    """1 where selective recomputation of dense layers keeps every other product's result, as
    torchtitan's policy by operator does; 0 where it keeps `selective_kept` of all tensors."""

    logit_bytes: float = 10.0
    """Bytes kept per logit between head and loss: 16 bits, 32 bits and the gradient."""

    split_logit_bytes: float = 0.0
    """Bytes more per logit where the vocabulary is split over ranks."""

    fused_logit_bytes: float = 4.0
    """Bytes per logit where the loss is compiled: 16 bits and their gradient."""

    context_bytes: float = 1.0e9
    """What the runtime, its kernels and communication buffers take."""

    reserve: float = 1.06
    """Memory that the allocator holds over memory in use: fragments and cached blocks."""

    @property
    def precision(self) -> Precision:
        """How the numbers of a parameter are kept."""
        return Precision(gradient_bytes=self.gradient_bytes, moment_bytes=self.moment_bytes)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes on the fullest device by cause, each of shape (N,)."""

    total: FloatArray
    """In use at the peak, what the runtime itself takes included."""

    parameters: FloatArray
    gradients: FloatArray
    optimizer: FloatArray
    activations: FloatArray
    logits: FloatArray
    buffers: FloatArray
    """Gathered parameters and the working set of a layer computed again."""

    reserved: FloatArray
    """What the allocator holds at the peak: compare this with the device's memory."""


def memory_use(
    table: RunTable, c: MemoryConstants, stages: tuple[str, ...] = ("first", "middle", "last")
) -> MemoryUse:
    """Peak memory of the fullest stage: the first, the one behind it, or the last.

    The first stage holds most micro-batches and the embedding, the last one the head and the
    logits: of one micro-batch, but with GPipe of all, and where gradients of weights are deferred
    the gradients of logits too. The peak is after the forward pass, with the logits, or where a
    layer is computed again. In a pipeline in two directions a device has two opposite stages.
    """
    uses = [_stage(table, c, stage) for stage in stages]
    fullest = np.argmax(np.stack([use.total for use in uses]), axis=0)
    columns = {
        item.name: np.choose(fullest, [getattr(use, item.name) for use in uses])
        for item in fields(MemoryUse)
    }
    return MemoryUse(**columns)


def _stage(table: RunTable, c: MemoryConstants, stage: str) -> MemoryUse:
    """Memory of the first, the fullest inner or the last stage; of all of it without stages."""
    alone, both = table.pp <= 1, table.bidirectional > 0
    layers = {
        "first": table.first_layers + table.bidirectional * table.last_layers,
        "middle": np.where(table.pp > 2, table.most_layers * (1.0 + table.bidirectional), 0.0),
        "last": table.last_layers + table.bidirectional * table.first_layers,
    }[stage]
    layers = np.where(alone, table.layers, layers)
    has_head = alone | (stage == "last") | (both & (stage == "first"))
    predicting = np.where(has_head, mtp_layers(table), 0.0)
    has_embedding = alone | (stage == "first") | (both & (stage == "last"))
    tables = np.where(has_embedding, 1.0, 0.0) + np.where(has_head, head_tables(table), 0.0)
    behind = table.pp - 1.0 if stage == "last" else np.full_like(table.pp, stage == "middle")
    parameters, gradients, made = state_bytes(table, c.precision, layers + predicting, tables)
    optimizer = np.where(table.swap_optimizer > 0, 0.0, made)
    per_layer, again = layer_bytes(table, c)
    held = table.pipelines.in_flight(behind)
    # Of the last of several chunks, where further tokens are predicted, one micro-batch is held.
    at_end = np.where(table.vpp > 1, 1.0, held)
    lacking = lacking_layers(table) if stage == "last" else np.zeros_like(held)
    deep = held * (layers + lacking) + at_end * (predicting - lacking)
    if stage != "middle":
        # Of the stage at its end of the row p micro-batches, of the opposite one the one at work.
        deep = np.where(both, table.pp * table.first_layers + table.last_layers + predicting, deep)
    kept = deep * per_layer
    each = held_logits(table, c)
    others = np.where(table.all_forward > 0, each.waiting, (table.deferred > 0) * each.owed)
    # In two directions a layer of the other one runs backward while the logits wait.
    beside = np.where(both, each.waiting, 0.0)
    logits = np.maximum(each.at_work - again, beside) + (held - 1.0) * others
    logits = np.where(has_head, logits, 0.0)
    if np.any(lacking > 0):
        # A later micro-batch enters a longer chunk while all of the first round wait there.
        longer = held * (layers + lacking) * per_layer
        later = (lacking > 0) & (table.micro_batches > table.pp) & (longer > kept + logits)
        kept, logits = np.where(later, longer, kept), np.where(later, 0.0, logits)
    buffers = again + gathered_bytes(table, layers + predicting)
    used = optimizer + kept + logits + buffers
    # States kept on the host are made on the device, before the first step.
    total = parameters + gradients + np.maximum(used, made) + c.context_bytes
    return MemoryUse(
        total=total,
        parameters=parameters,
        gradients=gradients,
        optimizer=optimizer,
        activations=kept,
        logits=logits,
        buffers=buffers,
        reserved=(total - c.context_bytes) * c.reserve + c.context_bytes,
    )


def reported_bytes(table: RunTable, c: MemoryConstants, counter: str) -> FloatArray:
    """What runs of a profile report: allocated, reserved, or all that the first device uses."""
    if counter == "first":
        return memory_use(table, c, ("first",)).total
    use = memory_use(table, c)
    return use.reserved if counter == "reserved" else use.total


def charged_bytes(
    table: RunTable, c: MemoryConstants, stages: tuple[str, ...] = ("first", "middle", "last")
) -> FloatArray:
    """The peak as it counts against `table.machine.usable_bytes`.

    What is reserved holds the runtime; what that takes beyond it is in the peak.
    """
    return memory_use(table, c, stages).total - np.minimum(
        c.context_bytes, table.machine.reserved_bytes
    )


def layer_bytes(table: RunTable, c: MemoryConstants) -> tuple[FloatArray, FloatArray]:
    """Bytes that one layer keeps per micro-batch, and the working set of recomputation."""
    count = tokens(table)
    split = np.where(table.sequence_parallel > 0, table.tp, 1.0)
    mixing, routed = table.mixing, routed_share(table)
    value = table.value_size
    stream = 4.0 * mixing.blocks * table.hidden / split
    latent = table.kv_rank > 0
    key_heads = np.where(latent, table.heads, table.kv_heads)
    queries = table.heads * (1.0 + mixing.query_gate)
    heads = 2.0 * (queries + key_heads) * table.head_size
    heads = heads + 2.0 * (key_heads + table.heads) * value
    heads = heads + np.where(latent, 4.0 * (table.query_rank + table.kv_rank) * table.tp, 0.0)
    made = heads - 2.0 * table.heads * value - 4.0 * (table.query_rank + table.kv_rank) * table.tp
    made = np.where(latent & (table.recompute_heads > 0), mixing.attention * made, 0.0)
    scores = np.where(table.unfused > 0, 5.0 * table.heads * table.seq_len, 0.0)
    scores = mixing.attention * scores * (1.0 - table.recompute_core)
    heads = mixing.attention * heads - made
    # The activation's result can be computed again from its input.
    inner = 2.0 * (1.0 + table.gated) + 2.0 * (1.0 - table.recompute_activation)
    dense = inner * table.ffn
    copies = table.experts_per_token * (inner * table.expert_ffn + 4.0 * mixing.expert_hidden)
    sparse = copies + inner * table.shared_ffn
    ffn = dense_share(table) * dense + routed * sparse
    moved = np.where(table.swap_attention > 0, 0.0, 1.0)
    inside = heads * moved + scores + ffn + mixing.share * mixing.kept
    whole = count * (stream + inside / table.tp) * c.activations
    chosen = whole * c.selective_kept
    if c.products_kept > 0:
        known = (routed <= 0) & (mixing.share <= 0)
        chosen = np.where(known, count * _every_other_product(table, split), chosen)
    partly = np.where(table.recompute_core > 0, chosen, whole)
    checkpoint = 2.0 * count * table.hidden / split
    checkpoint = checkpoint + table.keeps_attention * count * heads / table.tp
    kept = table.recompute_full * checkpoint + (1.0 - table.recompute_full) * partly
    kept = np.where(table.offloads > 0, 0.0, kept)
    again = (table.recompute_full > 0) | (table.offloads > 0)
    return kept, np.where(again, whole, 0.3 * partly) + count * made / table.tp * c.activations


def _every_other_product(table: RunTable, split: FloatArray) -> FloatArray:
    """Bytes per token that torchtitan's selective policy keeps of a dense layer.

    The layer's input, the result of fused attention and of every other product in their order:
    queries, values, the first of the feed-forward layer, and its last. Nobody needs the last one;
    compiled layers do not keep it.
    """
    value = table.value_size
    cut = table.heads * (table.head_size + value) + table.kv_heads * value + table.ffn
    whole = table.hidden * (1.0 + table.uncompiled)
    return 2.0 * (whole / split + cut / table.tp)


def logit_bytes(table: RunTable, c: MemoryConstants) -> FloatArray:
    """Bytes that a logit takes at the peak between head and loss."""
    apart = c.logit_bytes + np.where(table.tp > 1, c.split_logit_bytes, 0.0)
    return np.where(table.fused_loss > 0, c.fused_logit_bytes, apart)


class HeldLogits(NamedTuple):
    """Bytes of the logits of one micro-batch on one device, each of shape (N,)."""

    at_work: FloatArray
    """While head and loss run backward."""
    waiting: FloatArray
    """From the forward pass to that: the softmax in 32 bits, or less if no more is kept at work."""
    owed: FloatArray
    """From then until the head's weights have their gradient: the logits' own, in 16 bits."""


def held_logits(table: RunTable, c: MemoryConstants) -> HeldLogits:
    """What is kept of logits, and when.

    The losses of further tokens come before that of the next one, so their softmaxes wait while its
    logits are at work, and all pass backward behind it. Where gradients of weights come apart,
    those of all these logits are held beside the softmaxes.

    Source: Megatron-LM, `vocab_parallel_cross_entropy` saves the exponentials in 32 bits, and the
    linear layer whose weights' gradient is deferred saves the gradient of its result; `GPTModel`
    computes the losses of `mtp_num_layers` first.
    """
    each = logit_bytes(table, c)
    count, passes = tokens(table) * table.vocab / table.tp, 1.0 + table.further
    owed = np.minimum(each, _LOGIT_GRADIENT_BYTES)
    waiting = np.minimum(each - owed, _SOFTMAX_BYTES)
    at_work = each + table.further * waiting
    apart = (table.deferred > 0) | (table.bidirectional > 0)
    at_work = np.maximum(at_work, np.where(apart, passes * (waiting + owed), 0.0))
    return HeldLogits(at_work * count, passes * waiting * count, passes * owed * count)


_SOFTMAX_BYTES = 4.0
_LOGIT_GRADIENT_BYTES = 2.0


def gathered_bytes(table: RunTable, layers: FloatArray) -> FloatArray:
    """Gathered layers of sharded parameters: the one at work, one fetched ahead, one gradient."""
    dense, routed = gathered_parameters(table)
    whole = np.where(table.gather_once > 0, layers, 3.0)
    return np.where(table.zero_stage >= FULLY_SHARDED, whole * 2.0 * (dense + routed), 0.0)
