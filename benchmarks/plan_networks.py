"""A config.json with the sizes of a published run, for the importer that a search uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costmodel.training.records import TrainingModel

_POSITIONS = 1 << 20


def config_of(model: TrainingModel) -> dict[str, Any]:
    """The fields of a config.json: a Llama or GPT-2 of these sizes, a Mixtral or DeepSeek where
    layers are routed. `dense_layers` come first.
    """
    if model.experts:
        return {**_llama(model), **_experts(model), **_latent(model)}
    if model.gated:
        return {**_llama(model), **_latent(model)}
    return {
        "model_type": "gpt2", "n_embd": model.hidden, "n_layer": model.layers,
        "n_head": model.heads, "n_inner": model.ffn, "vocab_size": model.vocab,
        "n_positions": _POSITIONS, "activation_function": "gelu",
    }  # fmt: skip


def _llama(model: TrainingModel) -> dict[str, Any]:
    return {
        "model_type": "llama", "hidden_size": model.hidden, "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads, "num_key_value_heads": model.kv_heads,
        "intermediate_size": model.ffn, "vocab_size": model.vocab,
        "head_dim": model.head_size, "tie_word_embeddings": model.tied,
        "hidden_act": "silu", "max_position_embeddings": _POSITIONS, "rms_norm_eps": 1e-5,
    }  # fmt: skip


def _experts(model: TrainingModel) -> dict[str, Any]:
    """Whose scores are a softmax, as most have, or DeepSeek's, where groups limit the choice."""
    out: dict[str, Any] = {
        "model_type": "deepseek_v2" if model.kv_rank or model.shared_ffn else "mixtral",
        "num_local_experts": model.experts, "num_experts_per_tok": model.experts_per_token,
        "moe_intermediate_size": model.expert_ffn, "first_k_dense_replace": model.dense_layers,
        "shared_expert_intermediate_size": model.shared_ffn or None,
    }  # fmt: skip
    if model.expert_groups > 1:
        out |= {
            "model_type": "deepseek_v3", "n_group": model.expert_groups,
            "topk_group": model.groups_per_token,
        }  # fmt: skip
    return out


def _latent(model: TrainingModel) -> dict[str, Any]:
    if not model.kv_rank:
        return {}
    return {
        "q_lora_rank": model.query_rank or None, "kv_lora_rank": model.kv_rank,
        "qk_rope_head_dim": model.rotary_size,
        "qk_nope_head_dim": model.head_size - model.rotary_size,
        "v_head_dim": model.value_size or model.head_size,
    }  # fmt: skip
