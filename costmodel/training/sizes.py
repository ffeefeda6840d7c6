"""The matrices of a mean layer, and what is counted with them: parameters of a layer, of a whole
model and of one device, and operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.training.stage_split import equal_with_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "Matrix",
    "active_parameters",
    "chosen_parameters",
    "dense_matrices",
    "dense_share",
    "expert_matrices",
    "expert_parameters",
    "expert_parts",
    "expert_replicas",
    "gathered_parameters",
    "head_tables",
    "held_parameters",
    "lacking_layers",
    "layer_parameters",
    "local_parameters",
    "mixer_inward",
    "model_flops",
    "model_parameters",
    "mtp_layers",
    "replicas_of",
    "routed_share",
    "sharing_group",
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


class Matrix(NamedTuple):
    """Equal matrices of a mean layer: sizes, and how many there are, each of shape (N,)."""

    rows: FloatArray
    columns: FloatArray
    copies: FloatArray
    row_parts: FloatArray
    column_parts: FloatArray
    """Devices that split the rows and the columns."""
    spread: FloatArray
    """Devices over which whole matrices are spread."""

    @property
    def elements(self) -> FloatArray:
        """Elements of all of them, before they are split."""
        return self.rows * self.columns * self.copies

    @property
    def short(self) -> FloatArray:
        """The shorter side of the part that a device has of each."""
        return np.minimum(self.rows / self.row_parts, self.columns / self.column_parts)

    @property
    def long(self) -> FloatArray:
        """Its longer side."""
        return np.maximum(self.rows / self.row_parts, self.columns / self.column_parts)

    @property
    def held(self) -> FloatArray:
        """Of how many of them a device has a part; none of those without elements."""
        return np.where(self.elements > 0, self.copies / self.spread, 0.0)


def dense_matrices(table: RunTable) -> Iterator[Matrix]:
    """All but those of routed experts."""
    mixing, routed, tp, whole = table.mixing, routed_share(table), table.tp, np.ones_like(table.tp)

    def inward(rows: FloatArray, columns: FloatArray, count: FloatArray) -> Matrix:
        return Matrix(rows, columns, count, whole, tp, whole)

    def outward(rows: FloatArray, columns: FloatArray, count: FloatArray) -> Matrix:
        return Matrix(rows, columns, count, tp, whole, whole)

    yield from (inward(*sizes) for sizes in _attention(table))
    yield outward(table.heads * table.value_size, table.hidden, mixing.attention)
    yield inward(table.hidden, mixing.inward + mixing.groups * mixing.group_inward, mixing.share)
    yield outward(mixing.outward, table.hidden, mixing.share)
    for width, share in ((table.ffn, dense_share(table)), (table.shared_ffn, routed)):
        yield inward(table.hidden, width, (1.0 + table.gated) * share)
        yield outward(width, table.hidden, share)
    yield inward(table.hidden, table.experts, routed)
    yield inward(table.hidden, mixing.expert_hidden, 2.0 * routed * mixing.latent)


def _attention(table: RunTable) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Rows, columns and number of the matrices into attention."""
    mixing, latent = table.mixing, table.kv_rank > 0
    plain, compressed = mixing.attention * ~latent, mixing.attention * latent
    queries = table.heads * (1.0 + mixing.query_gate) * table.head_size
    yield table.hidden, queries, plain
    yield table.hidden, table.kv_heads * table.head_size, 2.0 * plain
    rank = np.where(table.query_rank > 0, table.query_rank, table.hidden)
    yield table.hidden, table.query_rank, compressed
    yield rank, table.heads * table.head_size, compressed
    yield table.hidden, table.kv_rank + table.rotary_size, compressed
    widened = table.heads * (table.head_size - table.rotary_size + table.value_size)
    yield table.kv_rank, widened, compressed


def expert_matrices(table: RunTable) -> Iterator[Matrix]:
    """Those of all routed experts."""
    parts, whole = expert_parts(table), np.ones_like(table.tp)
    up, down = _expert_sizes(table)
    yield Matrix(*up, whole, parts, table.ep)
    yield Matrix(*down, parts, whole, table.ep)


def _expert_sizes(table: RunTable) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Rows, columns and number of the matrices of experts, whatever splits them."""
    experts = routed_share(table) * table.experts
    inner, outer = table.mixing.expert_hidden, table.expert_ffn
    yield inner, outer, (1.0 + table.gated) * experts
    yield outer, inner, experts


def mixer_inward(table: RunTable) -> FloatArray:
    """Columns of the products into a mixer without softmax on one device: ranks share its heads;
    where there are fewer heads of keys than ranks, several have the same.
    """
    keys = np.maximum(table.mixing.groups, table.tp) * table.mixing.group_inward
    return (table.mixing.inward + keys) / table.tp


def expert_parameters(table: RunTable) -> FloatArray:
    """Parameters of all routed experts of a mean layer."""
    up, down = (rows * columns * copies for rows, columns, copies in _expert_sizes(table))
    return up + down


def dense_parameters(table: RunTable) -> FloatArray:
    """All others of a mean layer: matrices, and the vectors of normalisation and of mixers."""
    vectors = table.mixing.blocks * table.hidden + table.mixing.share * table.mixing.small
    return _dense_elements(table) + vectors


def _dense_elements(table: RunTable) -> FloatArray:
    found: FloatArray = sum(each.elements for each in dense_matrices(table))  # type: ignore[assignment]  # there are some
    return found


def layer_parameters(table: RunTable) -> FloatArray:
    """Parameters of a mean layer, all routed experts included."""
    return dense_parameters(table) + expert_parameters(table)


def chosen_parameters(table: RunTable) -> FloatArray:
    """Parameters of routed experts that one token meets in a mean layer."""
    return expert_parameters(table) * table.experts_per_token / np.maximum(table.experts, 1.0)


def active_parameters(table: RunTable) -> FloatArray:
    """Elements of matrices of a mean layer that one token meets, the choice of experts included."""
    return _dense_elements(table) + chosen_parameters(table)


def model_flops(table: RunTable, *, whole: bool = False) -> FloatArray:
    """Operations of products and attention in one step, forward and backward, without
    recomputation.

    Twice for every element of a matrix that a token meets and for every score with its product,
    three times over: 6 N + 12 L h s a token of a dense model of full-width heads where scores are
    `whole`, which else are halved where attention is causal. Mixers without softmax have the
    products of their chunks and states in the place of scores. Each further token that is
    predicted takes a mean layer of two blocks, a product that joins its embedding, and the head
    again, as Megatron-LM counts (`num_floating_point_operations`).

    Source: Chowdhery et al., PaLM, arXiv 2204.02311, appendix B; Narayanan et al., SC21,
    arXiv 2104.04473, section 5.1.
    """
    mixing, met = table.mixing, active_parameters(table)
    seen = table.seq_len * np.where((table.causal > 0) & (not whole), 0.5, 1.0)
    scores = 2.0 * seen * table.heads * (table.head_size + table.value_size)
    core = mixing.attention * scores + mixing.share * mixing.flops
    heads = (1.0 + table.further) * table.vocab + 2.0 * table.further * table.hidden
    layers = table.layers + mtp_layers(table)
    forward = layers * (2.0 * met + core) + 2.0 * heads * table.hidden
    return 3.0 * forward * (table.global_batch * table.seq_len)


def held_parameters(table: RunTable) -> FloatArray:
    """Parameters of a mean layer that one device works with: its own experts, not the others'."""
    return sum(_held_parts(table))  # type: ignore[return-value]  # there are two


def gathered_parameters(table: RunTable) -> tuple[FloatArray, FloatArray]:
    """Those that are gathered where parameters rest in shards: of the dense part, and of routed
    experts, none of which are where no other replica has the same.
    """
    dense, routed = _held_parts(table)
    return dense, np.where(expert_replicas(table, sharing_group(table)) > 1, routed, 0.0)


def _held_parts(table: RunTable) -> tuple[FloatArray, FloatArray]:
    one = np.ones_like(table.tp)
    return stage_parameters(table, one, 0.0 * one)


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


def sharing_group(table: RunTable) -> FloatArray:
    """Devices that share states, gradients and parameters as the stage of ZeRO says."""
    return np.where(table.zero_group > 0, table.zero_group, replicas_of(table))


def stage_parameters(
    table: RunTable, layers: FloatArray, tables: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Parameters of a device with so many layers and vocabulary tables: dense, and routed."""
    ends = tables * table.vocab * table.hidden / table.tp
    spread = expert_parts(table) * table.ep
    dense = layers * dense_parameters(table) / table.tp + ends
    return dense, layers * expert_parameters(table) / spread


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
