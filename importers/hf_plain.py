"""What architectures are whose blocks nobody builds here: enough to count their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from importers.hf_fields import Fields

__all__ = ["PLAIN", "Plain", "plain_decoder"]


@dataclass(frozen=True, slots=True)
class Plain:
    """What sizes alone leave unsaid."""

    gated: bool = True
    tied: bool = False
    """Where the configuration does not say."""
    causal: bool = True
    activation_kernels: int = 1
    expert_biases: bool = False
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Sizes where the configuration says nothing, by their meaning in `hf_fields`."""


_UNGATED = Plain(gated=False)
_UNGATED_TIED = Plain(gated=False, tied=True)
_ENCODER = Plain(gated=False, tied=True, causal=False)
_TIED = Plain(tied=True)
PLAIN: Mapping[str, Plain] = MappingProxyType(
    {
        **dict.fromkeys(("gpt_neox", "gptj", "codegen", "phi", "nemotron", "nemotron_h",
                         "persimmon"), _UNGATED),
        **dict.fromkeys(
            ("opt", "bloom", "falcon", "RefinedWeb", "RefinedWebModel", "gpt_bigcode", "gpt_neo",
             "mpt", "starcoder2", "xglm"),
            _UNGATED_TIED,
        ),
        **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "electra"), _ENCODER),
        **dict.fromkeys(("cohere", "cohere2", "mamba", "smollm3"), _TIED),
        "gpt_oss": Plain(activation_kernels=5, expert_biases=True),
        **dict.fromkeys(
            ("MiniMaxText01", "PanguProMoE", "baichuan", "bailing_moe", "bailing_moe_v2", "bamba",
             "chatglm", "dbrx", "deepseek", "deepseek_v32", "dots1", "ernie4_5", "ernie4_5_moe",
             "exaone", "exaone4", "falcon_h1", "falcon_mamba", "glm4", "glm4_moe", "granite",
             "granitemoehybrid", "grok-1", "hunyuan_v1_dense", "hunyuan_v1_moe", "internlm",
             "internlm2", "jamba", "kimi_linear", "llama4_text", "longcat_flash", "mamba2",
             "minicpm", "minimax", "minimax_m1", "minimax_m2", "minimax_text_01", "olmo", "olmo2",
             "olmo3", "olmo_hybrid", "olmoe", "phi3", "phimoe", "qwen", "qwen3_5_moe_text",
             "qwen3_5_text", "qwen3_next", "seed_oss", "stablelm"),
            Plain(),
        ),
    }
)  # fmt: skip
"""By `model_type`, as the configurations of the transformers library and of the hub have it."""

_UNGATED_ACTIVATIONS = ("gelu", "relu", "quick_gelu")
"""How activations begin that stand in feed-forward blocks of two products."""


def plain_decoder(config: Mapping[str, object], where: str) -> Plain:
    """An architecture of `PLAIN`, or what its activation lets one guess."""
    known = PLAIN.get(str(config.get("model_type")))
    if known is not None:
        return known
    activation = Fields(config, where, {}).text("activation", "silu")
    return Plain(gated=not activation.startswith(_UNGATED_ACTIVATIONS))
