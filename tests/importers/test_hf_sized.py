"""Sizes of architectures that are priced, many of which are not built: published parameters."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.training.records import TrainingLayout, TrainingModel, TrainingRun
from costmodel.training.sizes import model_parameters
from costmodel.training.table import RunTable
from importers.errors import ModelError
from importers.hf_sized import sized
from importers.sizes import import_published, published, published_names
from planner.requests.training_models import training_model
from tests.importers.configurations import DECODER

pytestmark = pytest.mark.fast


def sizes(hidden: int, layers: int, heads: int, vocab: int, **more: Any) -> dict[str, Any]:
    usual = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    return usual | {"vocab_size": vocab} | more


def experts(count: int, best: int, **more: Any) -> dict[str, Any]:
    return {"num_experts": count, "num_experts_per_tok": best} | more


MODELS: dict[str, tuple[float, dict[str, Any]]] = {
    "gpt_neox": (20.55, sizes(6144, 44, 64, 50432, intermediate_size=24576)),
    "opt": (65.7, sizes(9216, 64, 72, 50272, ffn_dim=36864)),
    "bloom": (
        176.2,
        {"n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "vocab_size": 250880},
    ),
    "falcon": (
        6.92,
        sizes(4544, 32, 71, 65024, num_kv_heads=71, multi_query=True),
    ),
    "RefinedWeb": (41.3, sizes(8192, 60, 128, 65024, n_head_kv=8)),
    "chatglm": (
        6.24,
        sizes(4096, 28, 32, 65024, multi_query_attention=True, multi_query_group_num=2,
              ffn_hidden_size=13696, kv_channels=128),
    ),
    "phi": (2.78, sizes(2560, 32, 32, 51200, intermediate_size=10240)),
    "phi3": (3.82, sizes(3072, 32, 32, 32064, intermediate_size=8192)),
    "gpt_bigcode": (
        15.5,
        {"n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576, "multi_query": True,
         "vocab_size": 49152},
    ),
    "mpt": (
        6.65,
        {"d_model": 4096, "n_heads": 32, "n_layers": 32, "vocab_size": 50432,
         "expansion_ratio": 4},
    ),
    "qwen": (7.72, sizes(4096, 32, 32, 151936, intermediate_size=22016, kv_channels=128)),
    "nemotron": (
        15.6, sizes(6144, 32, 48, 256000, num_key_value_heads=8, intermediate_size=24576)
    ),
    "cohere": (35.0, sizes(8192, 40, 64, 256000, intermediate_size=22528)),
    "dbrx": (
        131.6,
        {"d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352,
         "attn_config": {"kv_n_heads": 8},
         "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}},
    ),
    "gpt_oss": (
        116.8,
        sizes(2880, 36, 64, 201088, num_key_value_heads=8, head_dim=64, intermediate_size=2880)
        | experts(128, 4),
    ),
    "llama4_text": (
        107.8,
        sizes(5120, 48, 40, 202048, num_key_value_heads=8, head_dim=128, intermediate_size=8192,
              intermediate_size_mlp=16384, interleave_moe_layer_step=1)
        | experts(16, 1),
    ),
    "PanguProMoE": (
        72.0,
        sizes(5120, 48, 40, 153376, num_key_value_heads=8, moe_intermediate_size=1344,
              shared_expert_intermediate_size=5376)
        | experts(64, 8),
    ),
    "hunyuan_v1_moe": (
        80.4,
        sizes(4096, 32, 32, 128167, num_key_value_heads=8, attention_head_dim=128,
              intermediate_size=3072, num_experts=64, moe_topk=[8] * 32,
              num_shared_expert=[1] * 32, moe_intermediate_size=[3072] * 32,
              tie_word_embeddings=True),
    ),
    "longcat_flash": (
        560.0,
        {"hidden_size": 6144, "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048,
         "num_layers": 28, "num_attention_heads": 64, "vocab_size": 131072, "kv_lora_rank": 512,
         "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
         "n_routed_experts": 512, "zero_expert_num": 256, "moe_topk": 12},
    ),
    "minimax_m2": (
        229.0,
        sizes(3072, 62, 48, 200064, num_key_value_heads=8, head_dim=128, intermediate_size=1536)
        | experts(256, 8),
    ),
    "smollm3": (
        3.08, sizes(2048, 36, 16, 128256, num_key_value_heads=4, intermediate_size=11008)
    ),
    "qwen2_moe": (
        57.4,
        sizes(3584, 28, 28, 151936, num_key_value_heads=4, intermediate_size=18944,
              moe_intermediate_size=2560, shared_expert_intermediate_size=20480)
        | experts(64, 8),
    ),
}  # fmt: skip
"""Fields of a published config.json by `model_type`, and its parameters in billions."""


def billions(model: TrainingModel) -> float:
    layout = TrainingLayout(global_batch=1, micro_batch=1, seq_len=1024)
    run = TrainingRun("row", model, layout, "h100", "megatron-core")
    return float(model_parameters(RunTable.of([run]))[0]) / 1e9


@pytest.mark.parametrize("kind", MODELS)
def test_parameters_are_those_that_are_published(kind: str) -> None:
    wanted, fields = MODELS[kind]
    model, notes = training_model({"model_type": kind, **fields}, kind)
    assert billions(model) == pytest.approx(wanted, rel=0.01)
    assert notes == ()


DECODERS = [
    name for name in published_names() if not name.startswith(("bert", "t5", "vit", "whisper"))
]


@pytest.mark.parametrize("name", DECODERS)
def test_bundled_models_have_their_parameters(name: str) -> None:
    found = published(name)
    amount, unit = found.parameters.split()
    wanted = float(amount) * {"M": 1e-3, "B": 1.0, "T": 1e3}[unit]
    assert billions(training_model(found.config, name)[0]) == pytest.approx(wanted, rel=0.03)


def test_windows_are_read() -> None:
    wide = {"model_type": "mistral", **DECODER, "sliding_window": 128}
    kinds = ["sliding_attention", "full_attention"]
    found = [
        sized(config, "test")
        for config in (
            wide, wide | {"model_type": "gemma2"}, wide | {"use_sliding_window": False},
            wide | {"layer_types": kinds}, wide | {"layer_types": kinds[1:]},
        )
    ]  # fmt: skip
    windows = [(each.window, each.global_every) for each in found]
    assert windows == [(128, 10**6), (128, 2), (0, 1), (128, 2), (0, 1)]


def test_an_unknown_architecture_says_what_it_is_taken_for() -> None:
    gated, plain = (
        sized({**DECODER, "model_type": "newest", "hidden_act": act}, "test")
        for act in ("silu", "gelu_new")
    )
    assert (gated.gated, plain.gated) == (True, False)
    assert "taken for a decoder with a gate" in gated.notes[0]
    assert "without a gate" in plain.notes[0]


def test_experts_that_do_nothing_are_none_of_those_that_compute() -> None:
    config = {"model_type": "longcat_flash", **MODELS["longcat_flash"][1]}
    model, _ = training_model(config, "test")
    assert (model.experts, model.experts_per_token, model.shared_ffn) == (512, 8, 24576)


def test_a_size_may_stand_once_for_every_layer_if_all_are_equal() -> None:
    config = {"model_type": "hunyuan_v1_moe", **MODELS["hunyuan_v1_moe"][1]}
    with pytest.raises(ModelError, match=r"moe_intermediate_size is .*no whole number"):
        training_model(config | {"moe_intermediate_size": [3072, 1536]}, "test")


def test_some_layers_are_dense() -> None:
    routed = {**DECODER, "model_type": "qwen2_moe", "num_hidden_layers": 8} | experts(4, 2)
    changes: list[tuple[dict[str, object], int]] = [
        ({}, 0), ({"decoder_sparse_step": 2}, 4), ({"mlp_only_layers": [0, 3]}, 2),
        ({"first_k_dense_replace": 3}, 3), ({"moe_layer_freq": [0, 1, 1, 1, 1, 1, 1, 1]}, 1),
    ]  # fmt: skip
    for change, dense in changes:
        assert sized({**routed, **change}, "test").dense_layers == dense


@pytest.mark.parametrize(
    ("kind", "change", "groups"),
    [
        ("deepseek_v3", {}, (4, 2)),
        ("deepseek_v3", {"n_group": 1, "topk_group": 1}, (0, 0)),
        ("deepseek_v3", {"topk_method": "greedy"}, (0, 0)),
        ("deepseek_v2", {}, (0, 0)),
        ("deepseek_v2", {"topk_method": "group_limited_greedy"}, (4, 2)),
        ("newest", {}, (4, 2)),
        ("newest", {"topk_group": None}, (4, 4)),
        ("newest", {"num_experts": 0}, (0, 0)),
    ],
)
def test_groups_that_limit_routing_are_read(
    kind: str, change: dict[str, Any], groups: tuple[int, int]
) -> None:
    grouped = {"n_group": 4, "topk_group": 2, "moe_intermediate_size": 64} | experts(8, 2)
    config = {**DECODER, "model_type": kind} | grouped | change
    model, _ = training_model(config, "test")
    assert (model.expert_groups, model.groups_per_token) == groups


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mamba_d_state": 16}, "mamba_d_state says that it is no plain decoder"),
        ({"hybrid_override_pattern": "M*E"}, "hybrid_override_pattern says that it is no plain"),
        ({"num_attention_heads": 1024}, "more than the width"),
        ({"num_attention_heads": 7}, "does not divide the width"),
        ({"hidden_size": 0}, "not between"),
        ({"n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 2}, "dense"),
        ({"sliding_window": -5}, "not between"),
    ],
)
def test_sizes_that_cannot_be_are_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        sized({**DECODER, "model_type": "newest", **change}, "test")


def test_experts_with_biases_are_told_apart_from_their_family() -> None:
    """What `planner layouts` knows of gpt-oss holds though a search knows its family too."""
    found = training_model(published("gpt-oss-20b").config, "gpt-oss-20b")[0]
    assert found.expert_biases
    assert found.activation_kernels == 5


def test_both_readers_give_llama_4_its_shared_expert() -> None:
    """The width of a dense block stands apart, and every token visits one expert more."""
    config = published("llama4-maverick-17b-128e").config
    sized = training_model(config, "llama4")[0]
    assert (sized.ffn, sized.expert_ffn, sized.shared_ffn) == (16384, 8192, 8192)
    graph = import_published("llama4-maverick-17b-128e", {"sequence": 8})
    assert sum(t.elements for t in graph.parameters) / 1e9 == pytest.approx(billions(sized), 1e-4)
