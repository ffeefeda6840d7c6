"""Families of transformers by the `model_type` of their configurations: in what they differ.

A family is a line of facts; the blocks themselves are in `importers.transformers`. Names of modules
are those of the transformers library, so that parameters have the names of its checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from importers.transformers import Names, Norm

ALL = frozenset({"query", "key", "value", "output"})
_INPUTS = frozenset({"query", "key", "value"})


@dataclass(frozen=True, slots=True)
class Router:
    """How a family sends tokens to experts."""

    scores: Literal["softmax", "sigmoid"] = "softmax"
    normalised: bool = True
    """Where the configuration does not say."""
    grouped: bool = False
    correction: bool = False
    single: bool = False
    shared_gate: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """What a configuration leaves unsaid."""

    names: Names
    """Modules of the only stack, or of the decoder."""
    form: Literal["decoder", "encoder", "image", "text to text", "speech to text"] = "decoder"
    encoder: Names = field(default_factory=dict)
    norm: Norm = Norm()  # noqa: RUF009  frozen
    norms: Literal["before", "after", "both"] = "before"
    activation: str = "silu"
    gated: bool = True
    biases: frozenset[str] = frozenset()
    """Projections of attention that always add one."""
    optional_biases: frozenset[str] = ALL
    """Those that do if the configuration says so."""
    feed_forward_bias: bool = False
    rotary: bool = True
    fused: bool = False
    """Whether one product makes queries, keys and values, over batch and rows as one dimension."""
    scaled: bool = True
    query_norm: bool = False
    tied: bool = False
    """Where the configuration does not say."""
    entry_scaled: bool = False
    router: Router = Router()
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Sizes where the configuration says nothing, by their meaning in `hf_fields`."""


_LLAMA_NAMES = {
    "embedding": "model.embed_tokens", "layers": "model.layers", "final_norm": "model.norm",
    "head": "lm_head",
    "attention": "self_attn", "query": "q_proj", "key": "k_proj", "value": "v_proj",
    "output": "o_proj", "query_norm": "q_norm", "key_norm": "k_norm",
    "attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm",
    "mlp": "mlp", "gate": "gate_proj", "up": "up_proj", "down": "down_proj",
    "activation": "act_fn",
    "router": "gate", "experts": "experts", "experts_up": "experts.gate_up_proj",
    "experts_down": "experts.down_proj", "experts_activation": "experts.act_fn",
    "shared": "shared_experts", "shared_gate": "shared_expert_gate",
    "query_down": "q_a_proj", "query_down_norm": "q_a_layernorm", "query_up": "q_b_proj",
    "key_down": "kv_a_proj_with_mqa", "key_down_norm": "kv_a_layernorm", "key_up": "kv_b_proj",
}  # fmt: skip
_QWEN_EXPERT_NAMES = {**_LLAMA_NAMES, "shared": "shared_expert"}
_LLAMA_4_NAMES = {**_QWEN_EXPERT_NAMES, "mlp": "feed_forward", "router": "router"}
_GEMMA_NAMES = {
    **_LLAMA_NAMES, "attention_norm_after": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm", "mlp_norm_after": "post_feedforward_layernorm",
}  # fmt: skip
_GPT2_NAMES = {
    "embedding": "transformer.wte", "positions": "transformer.wpe", "layers": "transformer.h",
    "final_norm": "transformer.ln_f", "head": "lm_head",
    "attention": "attn", "fused": "c_attn", "output": "c_proj", "attention_norm": "ln_1",
    "mlp": "mlp", "mlp_norm": "ln_2", "up": "c_fc", "down": "c_proj", "activation": "act",
}  # fmt: skip
_BERT_NAMES = {
    "embedding": "bert.embeddings.word_embeddings",
    "positions": "bert.embeddings.position_embeddings",
    "types": "bert.embeddings.token_type_embeddings", "entry_norm": "bert.embeddings.LayerNorm",
    "layers": "bert.encoder.layer",
    "attention": "attention", "query": "self.query", "key": "self.key", "value": "self.value",
    "output": "output.dense", "attention_norm": "attention.output.LayerNorm",
    "mlp": "", "mlp_norm": "output.LayerNorm", "up": "intermediate.dense", "down": "output.dense",
    "activation": "intermediate.intermediate_act_fn",
    "transform": "cls.predictions.transform.dense",
    "transform_activation": "cls.predictions.transform.transform_act_fn",
    "transform_norm": "cls.predictions.transform.LayerNorm", "head": "cls.predictions.decoder",
}  # fmt: skip
_VIT_NAMES = {
    "patches": "vit.embeddings.patch_embeddings.projection",
    "class_token": "vit.embeddings.cls_token",
    "position_table": "vit.embeddings.position_embeddings",
    "layers": "vit.layers", "final_norm": "vit.layernorm", "classes": "classifier",
    "attention": "attention", "query": "q_proj", "key": "k_proj", "value": "v_proj",
    "output": "o_proj", "attention_norm": "layernorm_before",
    "mlp": "mlp", "mlp_norm": "layernorm_after", "up": "fc1", "down": "fc2",
    "activation": "activation_fn",
}  # fmt: skip
_T5_PARTS = {
    "embedding": "shared", "head": "lm_head",
    "query": "q", "key": "k", "value": "v", "output": "o",
    "attention": "layer.0.SelfAttention", "attention_norm": "layer.0.layer_norm",
    "distances": "layer.0.SelfAttention.relative_attention_bias", "activation": "act",
    "gate": "wi_0", "down": "wo",
}  # fmt: skip
_T5_ENCODER_NAMES = {
    **_T5_PARTS, "layers": "encoder.block", "final_norm": "encoder.final_layer_norm",
    "mlp": "layer.1.DenseReluDense", "mlp_norm": "layer.1.layer_norm", "up": "wi",
}  # fmt: skip
_T5_NAMES = {
    **_T5_PARTS, "layers": "decoder.block", "final_norm": "decoder.final_layer_norm",
    "cross": "layer.1.EncDecAttention", "cross_norm": "layer.1.layer_norm",
    "mlp": "layer.2.DenseReluDense", "mlp_norm": "layer.2.layer_norm", "up": "wi",
}  # fmt: skip
_WHISPER_PARTS = {
    "attention": "self_attn", "query": "q_proj", "key": "k_proj", "value": "v_proj",
    "output": "out_proj", "attention_norm": "self_attn_layer_norm",
    "mlp": "", "mlp_norm": "final_layer_norm", "up": "fc1", "down": "fc2",
    "activation": "activation_fn",
}  # fmt: skip
_WHISPER_ENCODER_NAMES = {
    **_WHISPER_PARTS, "layers": "model.encoder.layers", "final_norm": "model.encoder.layer_norm",
    "first_convolution": "model.encoder.conv1", "second_convolution": "model.encoder.conv2",
    "position_table": "model.encoder.embed_positions.weight",
}  # fmt: skip
_WHISPER_NAMES = {
    **_WHISPER_PARTS, "layers": "model.decoder.layers", "final_norm": "model.decoder.layer_norm",
    "embedding": "model.decoder.embed_tokens", "positions": "model.decoder.embed_positions",
    "cross": "encoder_attn", "cross_norm": "encoder_attn_layer_norm", "head": "proj_out",
}  # fmt: skip

DECODER = Family(_LLAMA_NAMES)
"""Llama's blocks: what most decoders since 2023 have."""
_GEMMA = Family(
    _LLAMA_NAMES, norm=Norm(offset=True), activation="gelu_pytorch_tanh", tied=True,
    entry_scaled=True, defaults={"head width": 256},
)  # fmt: skip
_GEMMA_2 = replace(
    _GEMMA, names=_GEMMA_NAMES, norms="both",
    defaults={"head width": 256, "attention cap": 50.0, "head cap": 30.0},
)  # fmt: skip
_GEMMA_3 = replace(
    _GEMMA_2, query_norm=True,
    defaults={"head width": 256, "heads": 8, "key heads": 4, "vocabulary": 262_208},
)  # fmt: skip
_LATENT_BIASES = frozenset({"latent", "output"})
_DEEPSEEK_2 = Family(
    _LLAMA_NAMES, optional_biases=_LATENT_BIASES, router=Router(single=True, normalised=False)
)
DEEPSEEK_3 = replace(
    _DEEPSEEK_2, router=Router("sigmoid", grouped=True, correction=True, single=True)
)
_LAYER = Norm("layer")

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": DECODER,
        "mistral": DECODER,
        "mixtral": DECODER,
        "qwen2": replace(DECODER, biases=_INPUTS),
        "qwen2_moe": replace(
            DECODER, names=_QWEN_EXPERT_NAMES, biases=_INPUTS,
            router=Router(normalised=False, shared_gate=True),
        ),
        "qwen3": replace(DECODER, query_norm=True, defaults={"head width": 128}),
        "qwen3_moe": replace(
            DECODER, query_norm=True, router=Router(normalised=False), defaults={"head width": 128}
        ),
        "seed_oss": replace(DECODER, biases=_INPUTS),
        "gpt_oss": replace(
            DECODER, names={**_LLAMA_NAMES, "router": "router"}, defaults={"head width": 64}
        ),
        "llama4_text": replace(
            DECODER, names=_LLAMA_4_NAMES, router=Router("sigmoid", normalised=False),
            defaults={"head width": 128},
        ),
        "minimax_m2": replace(
            DECODER, names={**_LLAMA_NAMES, "mlp": "block_sparse_moe"}, query_norm=True,
            router=Router("sigmoid", correction=True),
        ),
        "gemma": _GEMMA,
        "gemma2": _GEMMA_2,
        "gemma3_text": _GEMMA_3,
        "deepseek_v2": _DEEPSEEK_2,
        "deepseek_v3": DEEPSEEK_3,
        "kimi_k2": replace(DEEPSEEK_3, defaults={"groups": 1, "best groups": 1}),
        "gpt2": Family(
            _GPT2_NAMES, norm=_LAYER, activation="gelu_new", gated=False, biases=ALL,
            feed_forward_bias=True, rotary=False, fused=True, tied=True,
        ),
        "bert": Family(
            _BERT_NAMES, "encoder", norm=_LAYER, norms="after", activation="gelu", gated=False,
            biases=ALL, feed_forward_bias=True, rotary=False, tied=True, defaults={"types": 2},
        ),
        "vit": Family(
            _VIT_NAMES, "image", norm=_LAYER, activation="gelu", gated=False, biases=ALL,
            feed_forward_bias=True, rotary=False, defaults={"channels": 3, "classes": 2},
        ),
        "t5": Family(
            _T5_NAMES, "text to text", _T5_ENCODER_NAMES, gated=False, activation="relu",
            rotary=False, scaled=False, tied=True, defaults={"buckets": 32},
        ),
        "whisper": Family(
            _WHISPER_NAMES, "speech to text", _WHISPER_ENCODER_NAMES, norm=_LAYER,
            activation="gelu", gated=False, biases=frozenset({"query", "value", "output"}),
            feed_forward_bias=True, rotary=False, tied=True,
        ),
    }
)  # fmt: skip
"""By `model_type`; one that is not here is taken for a decoder by its common field names."""
