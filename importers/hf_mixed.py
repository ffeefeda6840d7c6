"""Networks with layers of several kinds, from the fields of a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from importers.hf_blocks import attention_of, experts_of, feed_forward_of
from importers.hf_families import DECODER, DEEPSEEK_3, Family, Router
from importers.hf_fields import Fields
from importers.hf_mixers import LayerKinds
from importers.transformers import Entry, Experts, FeedForward, Head, Network, Norm, Stack

__all__ = ["MIXED_FAMILIES", "mixed_network", "part_notes"]

_MAMBA_PARTS = {
    "mixer_gate": "in_proj.z", "mixer_value": "in_proj.x", "mixer_key": "in_proj.B",
    "mixer_query": "in_proj.C", "mixer_step": "in_proj.dt",
    "mixer_value_line": "conv1d.x", "mixer_key_line": "conv1d.B", "mixer_query_line": "conv1d.C",
    "step": "dt_bias", "decay": "A_log", "skip": "D", "mixer_norm": "norm",
    "mixer_output": "out_proj",
}  # fmt: skip
_SCAN_PARTS = {
    **_MAMBA_PARTS, "mixer_value_line": "conv1d", "mixer_small": "x_proj",
    "mixer_step": "dt_proj", "step": "dt_proj.bias",
}  # fmt: skip
_DELTA_PARTS = {
    "mixer": "linear_attn",
    "mixer_query": "in_proj_qkvz.q", "mixer_key": "in_proj_qkvz.k", "mixer_value": "in_proj_qkvz.v",
    "mixer_gate": "in_proj_qkvz.z", "mixer_step": "in_proj_ba.a", "mixer_strength": "in_proj_ba.b",
    "mixer_query_line": "conv1d.q", "mixer_key_line": "conv1d.k", "mixer_value_line": "conv1d.v",
    "step": "dt_bias", "decay": "A_log", "mixer_norm": "norm", "mixer_output": "out_proj",
}  # fmt: skip
_KIMI_PARTS = {
    "mixer": "self_attn", "mixer_query": "q_proj", "mixer_key": "k_proj", "mixer_value": "v_proj",
    "mixer_step_down": "f_a_proj", "mixer_step": "f_b_proj", "mixer_gate_down": "g_a_proj",
    "mixer_gate": "g_b_proj", "mixer_strength": "b_proj", "mixer_query_line": "q_conv1d",
    "mixer_key_line": "k_conv1d", "mixer_value_line": "v_conv1d", "step": "dt_bias",
    "decay": "A_log", "mixer_norm": "o_norm", "mixer_output": "o_proj",
    "mlp": "block_sparse_moe",
}  # fmt: skip
_LIGHTNING_PARTS = {
    "mixer": "self_attn", "mixer_query": "qkv_proj.q", "mixer_key": "qkv_proj.k",
    "mixer_value": "qkv_proj.v", "mixer_gate": "output_gate", "mixer_norm": "norm",
    "mixer_output": "out_proj", "mlp": "block_sparse_moe",
}  # fmt: skip
_BACKBONE = {
    "embedding": "backbone.embeddings", "layers": "backbone.layers",
    "final_norm": "backbone.norm_f", "attention_norm": "norm", "mlp_norm": "norm",
    "mixer": "mixer", "attention": "mixer", "mlp": "mixer",
    "latent_down": "fc1_latent_proj", "latent_up": "fc2_latent_proj",
}  # fmt: skip
_BESIDE = {"mixer": "mamba", "mlp": "feed_forward", "mlp_norm": "pre_ff_layernorm"}
_GRANITE = {
    "mixer": "mamba", "mlp": "block_sparse_moe", "shared": "shared_mlp",
    "gate": "input_linear.gate", "up": "input_linear.up", "down": "output_linear",
}  # fmt: skip


def _named(base: Family, *names: Mapping[str, str]) -> Family:
    every = dict(base.names)
    for more in names:
        every.update(more)
    return replace(base, names=every)


_QWEN = replace(
    _named(DECODER, {"shared": "shared_expert"}, _DELTA_PARTS),
    norm=Norm(offset=True), query_norm=True, router=Router(shared_gate=True),
)  # fmt: skip
_NEMOTRON = replace(
    _named(DECODER, _BACKBONE, _MAMBA_PARTS), gated=False, activation="relu2", rotary=False,
    router=Router("sigmoid", grouped=True, correction=True, single=True),
)  # fmt: skip
_MAMBA = replace(_named(DECODER, _BACKBONE, _SCAN_PARTS), rotary=False)
_STEP_NORMS = {
    "step_norm": "dt_layernorm", "write_norm": "b_layernorm", "read_norm": "c_layernorm",
}  # fmt: skip
_MINIMAX = _named(DECODER, _LIGHTNING_PARTS)

MIXED_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "nemotron_h": _NEMOTRON,
        **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _QWEN),
        **dict.fromkeys(("minimax", "minimax_text_01", "minimax_m1", "MiniMaxText01"), _MINIMAX),
        "kimi_linear": _named(DEEPSEEK_3, _KIMI_PARTS),
        "jamba": replace(
            _named(DECODER, _SCAN_PARTS, _BESIDE, _STEP_NORMS), rotary=False,
            router=Router(normalised=False),
        ),
        "granitemoehybrid": replace(_named(DECODER, _MAMBA_PARTS, _GRANITE), rotary=False),
        **dict.fromkeys(("bamba", "falcon_h1"), _named(DECODER, _MAMBA_PARTS, _BESIDE)),
        "mamba": replace(_MAMBA, tied=True),
        "falcon_mamba": _MAMBA,
        "mamba2": _named(_MAMBA, _MAMBA_PARTS),
    }
)  # fmt: skip
"""By `model_type`."""


def mixed_network(fields: Fields, family: Family, kinds: LayerKinds) -> Network:
    """The network of an architecture of `MIXED_FAMILIES`.

    Args:
        fields: completed by `completed`.
        family: of `MIXED_FAMILIES`.
        kinds: of its layers.
    """
    vocabulary = fields.count("vocabulary")
    rotary = family.rotary or fields.config.get("position_embedding_type") == "rope"
    family = replace(family, rotary=rotary and kinds.attention > 0)
    attention = replace(attention_of(fields, family), gated=kinds.query_gate)
    experts = experts_of(fields, family, kinds.layers)
    if experts is not None:
        experts = replace(experts, gated=family.gated, latent=kinds.expert_hidden)
    stack = Stack(
        entry=Entry(vocabulary=vocabulary),
        layers=kinds.layers,
        norm=family.norm,
        norms=family.norms,
        attention=attention,
        feed_forward=_dense(fields, family, kinds, experts),
        names=family.names,
        experts=experts,
        mixer=kinds.mixer,
        blocks=kinds.blocks,
    )
    head = Head("vocabulary", vocabulary, tied=fields.flag("tied", default=family.tied))
    return Network(fields.count("hidden"), (stack,), head, fields.count("positions", 0))


def _dense(
    fields: Fields, family: Family, kinds: LayerKinds, experts: Experts | None
) -> FeedForward:
    """The block of layers without experts; of any width where there are none."""
    dense = any(
        "dense" in blocks
        or ("mlp" in blocks and not (experts is not None and experts.stands_in(index)))
        for index, blocks in enumerate(kinds.blocks)
    )
    if dense or "feed-forward" in fields:
        return feed_forward_of(fields, family)
    return FeedForward(fields.count("hidden"))


def part_notes(kinds: LayerKinds) -> list[str]:
    """What the reader should know of how the blocks are written."""
    if kinds.mixer is None or kinds.mixer.kind == "kimi-delta":
        return []
    said = (
        "the first product of a block without softmax is planned in its parts, each split by its "
        "own heads; a checkpoint may have them in one weight"
    )
    return [said]
