"""Counts of parameters: of a layer, of a whole model and of one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.stage_split import equal_with_head

if TYPE_CHECKING:
    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "active_parameters",
    "dense_share",
    "expert_parts",
    "expert_replicas",
    "head_tables",
    "lacking_layers",
    "layer_parameters",
    "local_parameters",
    "mixer_inward",
    "model_parameters",
    "mtp_layers",
    "replicas_of",
    "routed_share",
    "stage_parameters",
    "wanted_expert_parts",
]


def routed_share(table: RunTable) -> FloatArray:
    """Share of the layers that have routed experts."""
    bare = table.mixing.bare
    return np.where(table.experts > 0, 1.0 - table.dense_layers / table.layers - bare, 0.0)


def dense_share(table: RunTable) -> FloatArray:
    """Share of the layers that have a dense feed-forward block."""
    return 1.0 - routed_share(table) - table.mixing.bare


def mtp_layers(table: RunTable) -> FloatArray:
    """Mean layers behind the last one that predict further tokens: each is a layer of attention and
    a feed-forward block, two blocks.
    """
    passes: FloatArray = table.further * 2.0 / table.mixing.blocks
    return passes


def head_tables(table: RunTable) -> FloatArray:
    """Vocabulary tables that the stage with the head holds for it.

    One of its own, but for a single stage whose table is tied. Multi-token prediction layers
    need the embedding too, of which the last stage has a copy, unless it has one anyway; and each
    a product of 2 h x h that joins the next token's embedding, counted as its part of a table.

    Source: Megatron-LM, `GPTModel` (`mtp_process`); DeepSeek-V3, arXiv 2412.19437, section 2.2.
    """
    several, tied = table.pp > 1, table.tied > 0
    copied = several & ~tied & (table.bidirectional <= 0) & (table.further > 0)
    joining = table.further * 2.0 * table.hidden / np.maximum(table.vocab, 1.0)
    return np.where(several | ~tied, 1.0, 0.0) + copied + joining


def lacking_layers(table: RunTable) -> FloatArray:
    """Layers that the last of several chunks has fewer than all others, for what predicts further
    tokens and the head; none where it has not so many: then every chunk of the stage lacks some.
    """
    fewer = table.most_layers - table.last_layers
    equal = equal_with_head(table.layers, table.pp, table.vpp, table.further)
    room = (table.vpp > 1) & (fewer <= table.most_layers / table.vpp)
    return np.where(equal & room, fewer, 0.0)


def mixing_parameters(table: RunTable) -> FloatArray:
    """Parameters of attention, other mixers and normalisation of a mean layer."""
    mixing, value = table.mixing, np.where(table.value_size > 0, table.value_size, table.head_size)
    queries = table.heads * (1.0 + mixing.query_gate)
    plain = table.hidden * (queries + 2.0 * table.kv_heads) * table.head_size
    rank = np.where(table.query_rank > 0, table.query_rank, table.hidden)
    query = table.hidden * table.query_rank + rank * table.heads * table.head_size
    keys = table.hidden * (table.kv_rank + table.rotary_size)
    keys = keys + table.kv_rank * table.heads * (table.head_size - table.rotary_size + value)
    inward = np.where(table.kv_rank > 0, query + keys, plain)
    attention = mixing.attention * (inward + table.heads * value * table.hidden)
    columns = mixing.inward + mixing.groups * mixing.group_inward + mixing.outward
    other = mixing.share * (table.hidden * columns + mixing.small)
    return attention + mixing.blocks * table.hidden + other


def mixer_inward(table: RunTable) -> FloatArray:
    """Columns of the products into a mixer without softmax on one device: ranks share its heads;
    where there are fewer heads of keys than ranks, several have the same.
    """
    keys = np.maximum(table.mixing.groups, table.tp) * table.mixing.group_inward
    return (table.mixing.inward + keys) / table.tp


def expert_parameters(table: RunTable) -> FloatArray:
    """Parameters of all routed experts of one layer."""
    return table.experts * (2.0 + table.gated) * table.mixing.expert_hidden * table.expert_ffn


def latent_parameters(table: RunTable) -> FloatArray:
    """Parameters of the products into the width that experts work on, and out of it."""
    return table.mixing.latent * 2.0 * table.hidden * table.mixing.expert_hidden


def layer_parameters(table: RunTable) -> FloatArray:
    """Parameters of a mean layer, all routed experts included."""
    routed = routed_share(table)
    width = dense_share(table) * table.ffn + routed * table.shared_ffn
    dense = mixing_parameters(table) + (2.0 + table.gated) * table.hidden * width
    chosen = expert_parameters(table) + table.experts * table.hidden + latent_parameters(table)
    return dense + routed * chosen


def active_parameters(table: RunTable) -> FloatArray:
    """Parameters of a mean layer that one token meets, without the choice of experts."""
    routed, narrowed = routed_share(table), table.mixing.expert_hidden / table.hidden
    chosen = table.experts_per_token * table.expert_ffn * narrowed + table.shared_ffn
    width = dense_share(table) * table.ffn + routed * chosen
    met = mixing_parameters(table) + (2.0 + table.gated) * table.hidden * width
    return met + routed * latent_parameters(table)


def gathered_parameters(table: RunTable) -> FloatArray:
    """Parameters of a mean layer that one device needs whole: its own experts, not the others'."""
    experts = routed_share(table) * expert_parameters(table)
    return (layer_parameters(table) - experts) / table.tp + experts / (
        expert_parts(table) * table.ep
    )


def model_parameters(table: RunTable) -> FloatArray:
    """Parameters of the whole model, with those of multi-token prediction layers."""
    tables = np.where(table.tied > 0, 1.0, 2.0) * table.vocab * table.hidden
    joining = 2.0 * table.further * table.hidden**2
    return (table.layers + mtp_layers(table)) * layer_parameters(table) + tables + joining


def local_parameters(table: RunTable) -> tuple[FloatArray, FloatArray]:
    """Parameters of the fullest device: those of the dense part, and of its routed experts.

    Of a pipeline in two directions it has two stages. What multi-token prediction needs is with the
    head, whose stage then may be the fullest.
    """
    layers = np.where(table.pp > 1, table.most_layers, table.layers)
    tables = np.where((table.pp > 1) | (table.tied > 0), 1.0, 2.0)
    stages = 1.0 + table.bidirectional
    plain = stage_parameters(table, stages * layers, stages * tables)
    if not np.any(table.further > 0):
        return plain
    both = table.bidirectional > 0
    opposite = np.where(both, table.first_layers, 0.0)
    last = np.where(table.pp > 1, table.last_layers + opposite, table.layers)
    beside = np.where(both | (table.pp <= 1), 1.0, 0.0)
    behind = stage_parameters(table, last + mtp_layers(table), head_tables(table) + beside)
    fuller = (table.further > 0) & (behind[0] + behind[1] > plain[0] + plain[1])
    dense, routed = (np.where(fuller, b, p) for b, p in zip(behind, plain, strict=True))
    return dense, routed


def replicas_of(table: RunTable) -> FloatArray:
    """Devices that hold the same part of the dense parameters: in a pipeline in two directions each
    stage stands twice.
    """
    return table.dp * table.cp * (1.0 + table.bidirectional)


def stage_parameters(
    table: RunTable, layers: FloatArray, tables: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Parameters of a device with so many layers and vocabulary tables: dense, and routed."""
    experts = routed_share(table) * expert_parameters(table)
    rest = layer_parameters(table) - experts
    ends = tables * table.vocab * table.hidden / table.tp
    return layers * rest / table.tp + ends, layers * experts / (expert_parts(table) * table.ep)


def expert_parts(table: RunTable) -> FloatArray:
    """Tensor parallel ranks that split the width of an expert; 1 where they split the tokens.

    As many as the layout says, else as the software does: but no more than there are devices in a
    stage for each of the `ep` parts of the experts. Where they split tokens, experts are spread
    over `ep` ranks next to one another.

    Source: Megatron-Core, `expert_tensor_parallel_size` x `expert_model_parallel_size` x
    `pipeline_model_parallel_size` divide the devices (`initialize_model_parallel`).
    """
    holders = table.tp * table.cp * table.dp / table.ep
    wanted = wanted_expert_parts(table)
    return np.gcd(wanted.astype(np.int64), holders.astype(np.int64)).astype(np.float64)


def wanted_expert_parts(table: RunTable) -> FloatArray:
    """What the layout says, or what the software does of itself, whether it fits or not."""
    whole = (table.sequence_parallel > 0) & (table.split_experts <= 0)
    usual = np.where(whole, 1.0, table.tp)
    return np.where(table.etp > 0, table.etp, usual)


def expert_replicas(table: RunTable, replicas: FloatArray) -> FloatArray:
    """Devices with the same part of the same experts, of so many replicas of the dense part."""
    return replicas * table.tp / (expert_parts(table) * table.ep)
