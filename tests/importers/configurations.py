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
WITHOUT_SEQUENCE = frozenset({"vit", "whisper"})


def short(kind: str) -> dict[str, int]:
    """Bindings that keep a network of a family small."""
    return {} if kind in WITHOUT_SEQUENCE else {"sequence": 8}
