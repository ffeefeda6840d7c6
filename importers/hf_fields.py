"""Fields of a config.json by what they mean: families have several names for the same size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from importers.errors import ModelError

FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
        "decoder layers": ("decoder_layers", "num_decoder_layers"),
        "hidden": ("hidden_size", "n_embd", "d_model", "dim", "n_embed"),
        "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads",
                  "encoder_attention_heads"),
        "decoder heads": ("decoder_attention_heads",),
        "key heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv",
                      "kv_n_heads", "num_attention_groups"),
        "head width": ("head_dim", "d_kv", "kv_channels", "attention_head_dim"),
        "value width": ("v_head_dim",),
        "feed-forward": ("intermediate_size", "ffn_dim", "d_ff", "n_inner", "ffn_hidden_size",
                         "encoder_ffn_dim"),
        "feed-forward ratio": ("expansion_ratio", "mlp_ratio"),
        "decoder feed-forward": ("decoder_ffn_dim",),
        "vocabulary": ("vocab_size", "padded_vocab_size"),
        "positions": ("max_position_embeddings", "n_positions", "n_ctx", "seq_length"),
        "types": ("type_vocab_size",),
        "experts": ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"),
        "experts per token": ("num_experts_per_tok", "num_experts_per_token", "moe_topk",
                              "moe_top_k", "moe_k", "num_selected_experts"),
        "expert width": ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_size"),
        "shared experts": ("n_shared_experts", "moe_num_shared_experts", "num_shared_experts",
                           "num_shared_expert"),
        "shared width": ("shared_expert_intermediate_size", "shared_intermediate_size",
                         "share_expert_dim", "moe_shared_expert_intermediate_size"),
        "expert latent": ("moe_latent_size",),
        "expert period": ("expert_layer_period",),
        "expert offset": ("expert_layer_offset",),
        "attention period": ("attn_layer_period",),
        "attention offset": ("attn_layer_offset",),
        "attention places": ("attn_layer_indices",),
        "attention interval": ("full_attention_interval",),
        "query gate": ("attn_output_gate",),
        "mixer heads": ("linear_num_value_heads", "mamba_num_heads", "mamba_n_heads"),
        "mixer key heads": ("linear_num_key_heads", "mamba_n_groups", "n_groups"),
        "mixer key width": ("linear_key_head_dim", "ssm_state_size", "mamba_d_state", "state_size"),
        "mixer value width": ("linear_value_head_dim", "mamba_head_dim", "mamba_d_head"),
        "mixer convolution": ("linear_conv_kernel_dim", "short_conv_kernel_size", "mamba_d_conv",
                              "conv_kernel"),
        "linear heads": ("linear_num_heads",),
        "linear head width": ("linear_head_dim",),
        "mixer chunk": ("mamba_chunk_size", "chunk_size"),
        "mixer block": ("block_size",),
        "mixer inner": ("mamba_d_ssm",),
        "mixer expansion": ("mamba_expand", "expand"),
        "mixer rank": ("mamba_dt_rank", "time_step_rank"),
        "first expert layer": ("first_k_dense_replace", "moe_layer_start_index"),
        "expert interval": ("moe_layer_freq", "moe_layer_interval", "decoder_sparse_step",
                            "interleave_moe_layer_step"),
        "MTP layers": ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers",
                           "num_mtp_modules"),
        "groups": ("n_group",),
        "best groups": ("topk_group",),
        "query rank": ("q_lora_rank",),
        "key rank": ("kv_lora_rank",),
        "rotary width": ("qk_rope_head_dim",),
        "plain width": ("qk_nope_head_dim",),
        "buckets": ("relative_attention_num_buckets",),
        "image": ("image_size",),
        "patch": ("patch_size",),
        "channels": ("num_channels",),
        "bins": ("num_mel_bins",),
        "frames": ("max_source_positions",),
        "target positions": ("max_target_positions",),
        "classes": ("num_labels",),
        "activation": ("hidden_activation", "hidden_act", "activation_function", "dense_act_fn",
                       "mlp_hidden_act"),
        "projection": ("feed_forward_proj",),
        "dense layers": ("mlp_only_layers",),
        "window": ("sliding_window",),
        "window pattern": ("sliding_window_pattern",),
        "element type": ("torch_dtype", "dtype"),
        "tied": ("tie_word_embeddings",),
        "attention bias": ("attention_bias", "qkv_bias", "use_qkv_bias"),
        "feed-forward bias": ("mlp_bias", "use_bias"),
        "normalised": ("norm_topk_prob",),
        "expert factor": ("routed_scaling_factor",),
        "query norm": ("use_qk_norm", "qk_norm"),
        "attention cap": ("attn_logit_softcapping",),
        "head cap": ("final_logit_softcapping",),
    }
)  # fmt: skip
"""Names in config.json by meaning; the first one that is there and not null counts."""

MOST: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("layers", "decoder layers"), 2**10),
        **dict.fromkeys(("hidden", "feed-forward", "decoder feed-forward"), 2**20),
        **dict.fromkeys(("expert width", "shared width", "query rank", "key rank"), 2**20),
        "vocabulary": 2**26,
        "positions": 2**32,
        "MTP layers": 2**6,
    }
)
"""Far above any network there is: they keep a broken file from filling memory."""
_MOST = 2**16


@dataclass(frozen=True, slots=True)
class Fields:
    """The sizes of one configuration."""

    config: Mapping[str, object]
    where: str
    """Of the file, for errors."""
    defaults: Mapping[str, object]
    """What a family has where its configurations say nothing, by meaning."""

    def field(self, meaning: str) -> str | None:
        """The name under which the configuration has it."""
        names = FIELDS[meaning]
        return next((n for n in names if self.config.get(n) is not None), None)

    def __contains__(self, meaning: str) -> bool:
        return self.field(meaning) is not None or meaning in self.defaults

    def _given(self, meaning: str) -> object:
        name = self.field(meaning)
        return self.defaults.get(meaning) if name is None else self.config[name]

    def count(self, meaning: str, default: int | None = None) -> int:
        """A size, at least one unless the default is less; a list of it, once for each layer, too.

        Raises:
            ModelError: it is missing without a default, no whole number, or beyond any network.
        """
        value = _same(self._given(meaning))
        if value is None and default is not None:
            return default
        if value is None:
            raise ModelError(
                f"the configuration gives no size of {meaning}",
                f"{' or '.join(FIELDS[meaning])} in {self.where}",
                "add the field; `planner sizes` has an option for each that is common",
            )
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(meaning, "is no whole number")
        least, most = min(1, 1 if default is None else default), MOST.get(meaning, _MOST)
        if not least <= value <= most:
            raise self.wrong(meaning, f"is not between {least} and {most}")
        return value

    def flag(self, meaning: str, *, default: bool) -> bool:
        value = self._given(meaning)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(meaning, "is neither true nor false")
        return value

    def number(self, meaning: str, default: float) -> float:
        value = self._given(meaning)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise self.wrong(meaning, "is no number")
        return float(value)

    def text(self, meaning: str, default: str) -> str:
        value = self._given(meaning)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(meaning, "is no text")
        return value

    def whole_numbers(self, meaning: str) -> tuple[int, ...]:
        """A list of them, empty where there is none."""
        value = self._given(meaning)
        if value is None:
            return ()
        if not isinstance(value, list) or any(type(each) is not int for each in value):
            raise self.wrong(meaning, "is no list of whole numbers")
        return tuple(value)

    def wrong(self, meaning: str, what: str) -> ModelError:
        """The error for a field whose value cannot be."""
        name = self.field(meaning) or FIELDS[meaning][0]
        shown = repr(self._given(meaning))
        shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
        return ModelError(f"{name} is {shown}, which {what}", self.where, f"correct {name}")


def _same(value: object) -> object:
    """What a list has for every layer, where all have the same."""
    alike = isinstance(value, list) and value and all(each == value[0] for each in value)
    return value[0] if isinstance(value, list) and alike else value


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every float
        return False
