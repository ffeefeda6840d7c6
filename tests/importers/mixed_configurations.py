"""Published networks whose layers are of several kinds: fields of their config.json on the Hub."""

from __future__ import annotations

from typing import Any

NANO_PATTERN = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
SUPER_PATTERN = (
    "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
)
H8_PATTERN = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"


def _sizes(hidden: int, layers: int, heads: int, keys: int, vocab: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": keys, "vocab_size": vocab, "tie_word_embeddings": False,
    }  # fmt: skip


def _nemotron(pattern: str, hidden: int, heads: int, keys: int, **more: Any) -> dict[str, Any]:
    usual = _sizes(hidden, len(pattern), heads, keys, 131_072) | {
        "model_type": "nemotron_h", "hybrid_override_pattern": pattern, "head_dim": 128,
        "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4,
        "chunk_size": 128, "expand": 2,
    }  # fmt: skip
    return usual | more


def _delta(kind: str, hidden: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    usual = _sizes(hidden, layers, heads, 2, 248_320) | {
        "model_type": kind, "head_dim": 256, "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
        "linear_value_head_dim": 128,
    }  # fmt: skip
    return usual | more


NEMOTRON_3_NANO = _nemotron(
    NANO_PATTERN, 2688, 32, 2, mamba_num_heads=64, n_routed_experts=128, num_experts_per_tok=6,
    moe_intermediate_size=1856, moe_shared_expert_intermediate_size=3712, n_shared_experts=1,
    intermediate_size=1856, n_group=1, topk_group=1,
)  # fmt: skip
NEMOTRON_3_SUPER = _nemotron(
    SUPER_PATTERN, 4096, 32, 2, mamba_num_heads=128, n_routed_experts=512, num_experts_per_tok=22,
    moe_intermediate_size=2688, moe_shared_expert_intermediate_size=5376, n_shared_experts=1,
    moe_latent_size=1024, intermediate_size=2688,
)  # fmt: skip
NEMOTRON_3_ULTRA = _nemotron(
    "MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*"
    "EMEMEMEM*EMEMEMEME",
    8192, 64, 2, mamba_num_heads=256, n_routed_experts=512, num_experts_per_tok=22,
    moe_intermediate_size=5120, moe_shared_expert_intermediate_size=10_240, n_shared_experts=1,
    moe_latent_size=2048, intermediate_size=5120,
)  # fmt: skip
NEMOTRON_H_8B = _nemotron(H8_PATTERN, 4096, 32, 8, mamba_num_heads=128, intermediate_size=21_504)
QWEN3_NEXT = _delta(
    "qwen3_next", 2048, 48, 16, vocab_size=151_936, linear_num_value_heads=32, num_experts=512,
    num_experts_per_tok=10, moe_intermediate_size=512, shared_expert_intermediate_size=512,
    intermediate_size=5120, decoder_sparse_step=1, mlp_only_layers=[],
)  # fmt: skip
QWEN3_5 = _delta(
    "qwen3_5_moe_text", 4096, 60, 32, linear_num_value_heads=64, num_experts=512,
    num_experts_per_tok=10, moe_intermediate_size=1024, shared_expert_intermediate_size=1024,
)  # fmt: skip
QWEN3_5_4B = _delta(
    "qwen3_5_text", 2560, 32, 16, num_key_value_heads=4, linear_num_value_heads=32,
    intermediate_size=9216, tie_word_embeddings=True,
    layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 8,
)  # fmt: skip
KIMI_LINEAR = _sizes(2304, 27, 32, 32, 163_840) | {
    "model_type": "kimi_linear", "intermediate_size": 9216, "head_dim": 72,
    "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1,
    "moe_intermediate_size": 1024, "first_k_dense_replace": 1, "moe_layer_freq": 1,
    "num_expert_group": 1, "topk_group": 1,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32,
        "kda_layers": [n for n in range(1, 27) if n % 4], "short_conv_kernel_size": 4,
    },
}  # fmt: skip
KIMI_SAVED = {
    **{k: v for k, v in KIMI_LINEAR.items() if k != "linear_attn_config" and "first" not in k},
    "mlp_layer_types": ["dense"] + ["sparse"] * 26,
    "layer_types": [
        "full_attention" if n % 4 == 0 or n == 27 else "linear_attention" for n in range(1, 28)
    ],
    "linear_head_dim": 128, "linear_num_heads": 32, "linear_conv_kernel_dim": 4,
}  # fmt: skip
"""As the transformers library writes it."""
OLMO_HYBRID = _sizes(3840, 32, 30, 30, 100_352) | {
    "model_type": "olmo_hybrid", "intermediate_size": 11_008, "linear_conv_kernel_dim": 4,
}  # fmt: skip
MINIMAX_TEXT = _sizes(6144, 80, 64, 8, 200_064) | {
    "model_type": "minimax_text_01", "head_dim": 128, "intermediate_size": 9216,
    "num_local_experts": 32, "num_experts_per_tok": 2, "shared_intermediate_size": 0,
    "attn_type_list": ([0] * 7 + [1]) * 10,
}  # fmt: skip
JAMBA = _sizes(4096, 32, 32, 8, 65_536) | {
    "model_type": "jamba", "intermediate_size": 14_336, "attn_layer_period": 8,
    "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1,
    "num_experts": 16, "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_dt_rank": 256,
}  # fmt: skip
FALCON_H1 = _sizes(5120, 72, 20, 4, 261_120) | {
    "model_type": "falcon_h1", "head_dim": 128, "intermediate_size": 21_504, "mamba_d_ssm": 4096,
    "mamba_n_heads": 32, "mamba_d_head": 128, "mamba_d_state": 256, "mamba_n_groups": 2,
    "mamba_d_conv": 4, "mamba_chunk_size": 256, "mamba_expand": 2,
}  # fmt: skip


def _granite(layers: list[str], hidden: int, heads: int, **more: Any) -> dict[str, Any]:
    usual = _sizes(hidden, len(layers), heads, 8, 100_352) | {
        "model_type": "granitemoehybrid", "layer_types": layers, "tie_word_embeddings": True,
        "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4,
        "mamba_chunk_size": 256, "mamba_expand": 2,
    }  # fmt: skip
    return usual | more


_TENTH = ["mamba"] * 5 + (["attention"] + ["mamba"] * 9) * 3 + ["attention"] + ["mamba"] * 4
GRANITE_SMALL = _granite(
    _TENTH, 4096, 32, mamba_n_heads=128, num_local_experts=72, num_experts_per_tok=10,
    intermediate_size=768, shared_intermediate_size=1536,
)  # fmt: skip
GRANITE_MICRO = _granite(
    _TENTH, 2048, 32, mamba_n_heads=64, num_local_experts=0, num_experts_per_tok=0,
    intermediate_size=8192, shared_intermediate_size=8192,
)  # fmt: skip
BAMBA = _sizes(4096, 32, 32, 8, 128_256) | {
    "model_type": "bamba", "intermediate_size": 14_336, "attn_layer_indices": [9, 18, 27],
    "mamba_n_heads": 128, "mamba_d_head": "auto", "mamba_d_state": 128, "mamba_n_groups": 1,
    "mamba_d_conv": 4, "mamba_expand": 2,
}  # fmt: skip
MAMBA = {
    "model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64, "state_size": 16,
    "expand": 2, "conv_kernel": 4, "time_step_rank": 160, "vocab_size": 50_280,
}  # fmt: skip
MAMBA2 = {
    "model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "state_size": 128,
    "expand": 2, "conv_kernel": 4, "num_heads": 128, "head_dim": 64, "n_groups": 8,
    "chunk_size": 256, "vocab_size": 32_768, "tie_word_embeddings": False,
}  # fmt: skip
FALCON_MAMBA = {
    "model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64, "state_size": 16,
    "expand": 2, "conv_kernel": 4, "time_step_rank": 256, "vocab_size": 65_024,
    "tie_word_embeddings": False,
}  # fmt: skip

NEMOTRON_H_56B = _nemotron(
    "M-" * 54 + "*" * 10, 8192, 64, 8, mamba_num_heads=256, ssm_state_size=256,
    intermediate_size=32_768,
)  # fmt: skip
"""Its layers stand in another order, which sizes do not hang on."""

PUBLISHED: dict[str, tuple[dict[str, Any], float]] = {
    "Nemotron-H-8B": (NEMOTRON_H_8B, 8.10),
    "Nemotron-H-56B": (NEMOTRON_H_56B, 56.32),
    "NVIDIA-Nemotron-3-Nano-30B-A3B": (NEMOTRON_3_NANO, 31.6),
    "NVIDIA-Nemotron-3-Super-120B-A12B": (NEMOTRON_3_SUPER, 120.6),
    "NVIDIA-Nemotron-3-Ultra-550B-A55B": (NEMOTRON_3_ULTRA, 550.0),
    "Qwen3-Next-80B-A3B": (QWEN3_NEXT, 80.0),
    "Qwen3.5-397B-A17B": (QWEN3_5, 397.0),
    "Qwen3.5-4B": (QWEN3_5_4B, 4.21),
    "Kimi-Linear-48B-A3B": (KIMI_LINEAR, 49.1),
    "MiniMax-Text-01": (MINIMAX_TEXT, 456.0),
    "Jamba-v0.1": (JAMBA, 51.6),
    "Falcon-H1-34B": (FALCON_H1, 33.6),
    "granite-4.0-h-small": (GRANITE_SMALL, 32.2),
    "granite-4.0-h-micro": (GRANITE_MICRO, 3.19),
    "Bamba-9B": (BAMBA, 9.78),
    "mamba-2.8b": (MAMBA, 2.77),
    "Mamba-Codestral-7B": (MAMBA2, 7.285),
    "falcon-mamba-7b": (FALCON_MAMBA, 7.27),
}
"""Configuration, and billions of parameters as the Hub or the paper has them; those that predict
further tokens or see images left out."""

ACTIVE = {
    "NVIDIA-Nemotron-3-Nano-30B-A3B": (3.6, True),
    "NVIDIA-Nemotron-3-Super-120B-A12B": (12.7, True),
    "MiniMax-Text-01": (45.9, False),
    "Jamba-v0.1": (12.0, True),
}
"""Billions that a token meets, where three digits or nearly are published: arXiv 2512.20848, the
report of Nemotron 3 Super, arXiv 2501.08313 and 2403.19887; whether tables of tokens count."""
