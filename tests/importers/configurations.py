"""Small configurations of every family that is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DECODER: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 256,
    "max_position_embeddings": 64, "torch_dtype": "float32", "hidden_act": "silu",
}  # fmt: skip
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LATENT = {
    "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "n_shared_experts": 1, "first_k_dense_replace": 1, "num_key_value_heads": 8,
}  # fmt: skip
_ENCODER = {**DECODER, "hidden_act": "gelu"}

SMALL: Mapping[str, dict[str, Any]] = {
    kind: {"model_type": kind, **fields}
    for kind, fields in {
        "llama": DECODER,
        "mistral": DECODER,
        "mixtral": {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 2},
        "qwen2": DECODER,
        "qwen2_moe": {**DECODER, **_EXPERTS, "shared_expert_intermediate_size": 64},
        "qwen3": {**DECODER, "head_dim": 16},
        "qwen3_moe": {**DECODER, **_EXPERTS, "head_dim": 16, "norm_topk_prob": True},
        "seed_oss": {**DECODER, "head_dim": 16},
        "gpt_oss": {
            **DECODER, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16,
            "attention_bias": True,
        },
        "llama4_text": {
            **DECODER, "num_local_experts": 4, "num_experts_per_tok": 1, "head_dim": 16,
            "intermediate_size_mlp": 128, "interleave_moe_layer_step": 2,
        },
        "minimax_m2": {
            **DECODER, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16,
        },
        "gemma": {**DECODER, "head_dim": 16},
        "gemma2": {**DECODER, "head_dim": 16},
        "gemma3_text": {**DECODER, "head_dim": 16},
        "deepseek_v2": {
            **DECODER, **_LATENT, "topk_method": "group_limited_greedy", "n_group": 2,
            "topk_group": 1,
        },
        "deepseek_v3": {
            **DECODER, **_LATENT, "q_lora_rank": 24, "n_group": 2, "topk_group": 1,
            "routed_scaling_factor": 2.5,
        },
        "kimi_k2": {**DECODER, **_LATENT, "q_lora_rank": 24},
        "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 8, "n_positions": 64, "vocab_size": 256},
        "bert": {**_ENCODER, "architectures": ["BertForMaskedLM"], "type_vocab_size": 2},
        "vit": {**_ENCODER, "image_size": 16, "patch_size": 4, "num_labels": 8},
        "t5": {
            "d_model": 64, "d_kv": 8, "d_ff": 128, "num_layers": 2, "num_heads": 8,
            "vocab_size": 256, "feed_forward_proj": "gated-gelu", "n_positions": 32,
        },
        "whisper": {
            "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 8,
            "decoder_attention_heads": 8, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
            "num_mel_bins": 16, "max_source_positions": 16, "max_target_positions": 16,
            "vocab_size": 256,
        },
    }.items()
}  # fmt: skip
_STATE = {
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 4, "mamba_d_state": 8,
    "mamba_d_conv": 3, "mamba_chunk_size": 4, "mamba_expand": 2,
}  # fmt: skip
_PLAIN_STATE = {
    "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 256, "state_size": 4, "expand": 2,
    "conv_kernel": 3, "torch_dtype": "float32",
}  # fmt: skip
_DELTA = {
    **DECODER, "head_dim": 16, "linear_num_value_heads": 8, "linear_num_key_heads": 4,
    "linear_key_head_dim": 8, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 3,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
_LIGHTNING = {
    **DECODER, "num_local_experts": 4, "num_experts_per_tok": 2, "attn_type_list": [0, 1],
}  # fmt: skip
SMALL_MIXED: Mapping[str, dict[str, Any]] = {
    kind: {"model_type": kind, **fields}
    for kind, fields in {
        "nemotron_h": {
            **DECODER, "hybrid_override_pattern": "M*-E", "num_hidden_layers": 4,
            "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 4, "ssm_state_size": 8,
            "conv_kernel": 3, "chunk_size": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 64,
            "moe_latent_size": 32, "hidden_act": "relu2", "n_group": 1, "topk_group": 1,
        },
        "qwen3_next": {**_DELTA, **_EXPERTS, "shared_expert_intermediate_size": 64},
        "qwen3_5_text": _DELTA,
        "qwen3_5_moe_text": {**_DELTA, **_EXPERTS, "shared_expert_intermediate_size": 64},
        "minimax": _LIGHTNING,
        "minimax_text_01": _LIGHTNING,
        "minimax_m1": _LIGHTNING,
        "MiniMaxText01": _LIGHTNING,
        "kimi_linear": {
            **DECODER, **_LATENT, "linear_attn_config": {
                "kda_layers": [1], "num_heads": 8, "head_dim": 8, "short_conv_kernel_size": 3,
            },
        },
        "jamba": {
            **DECODER, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
            "expert_layer_offset": 1, "num_experts": 4, "num_experts_per_tok": 2,
            "mamba_d_state": 4, "mamba_d_conv": 3, "mamba_dt_rank": 8,
        },
        "granitemoehybrid": {
            **DECODER, **_STATE, "layer_types": ["mamba", "attention"], "num_local_experts": 4,
            "num_experts_per_tok": 2, "shared_intermediate_size": 64,
        },
        "bamba": {**DECODER, **_STATE, "attn_layer_indices": [1]},
        "falcon_h1": {**DECODER, **_STATE, "mamba_d_ssm": 128},
        "mamba": {**_PLAIN_STATE, "time_step_rank": 8},
        "falcon_mamba": {**_PLAIN_STATE, "time_step_rank": 8},
        "mamba2": {**_PLAIN_STATE, "num_heads": 8, "head_dim": 16, "n_groups": 4, "chunk_size": 4},
    }.items()
}  # fmt: skip
"""Those with layers of several kinds, or without softmax attention."""
EVERY = {**SMALL, **SMALL_MIXED}
WITHOUT_SEQUENCE = frozenset({"vit", "whisper"})


def short(kind: str) -> dict[str, int]:
    """Bindings that keep a network of a family small."""
    return {} if kind in WITHOUT_SEQUENCE else {"sequence": 8}
