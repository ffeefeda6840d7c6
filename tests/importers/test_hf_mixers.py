"""Networks with layers of several kinds by their configurations: published parameters, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel.training.mixers import MixerKind
from costmodel.training.records import TrainingLayout, TrainingModel, TrainingRun
from costmodel.training.sizes import active_parameters, model_parameters
from costmodel.training.table import RunTable
from importers.errors import ModelError
from importers.hf_mixers import MIXED, layer_kinds
from importers.hf_sized import sized
from planner.requests.training_models import training_model
from tests.importers import mixed_configurations as configurations
from tests.importers.mixed_configurations import ACTIVE, PUBLISHED

pytestmark = pytest.mark.fast


def table_of(model: TrainingModel) -> RunTable:
    layout = TrainingLayout(global_batch=1, micro_batch=1, seq_len=1024)
    return RunTable.of([TrainingRun("row", model, layout, "h100", "megatron-core")])


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name: str) -> None:
    config, published = PUBLISHED[name]
    model, notes = training_model(config, name)
    billions = float(model_parameters(table_of(model))[0]) / 1e9
    assert billions == pytest.approx(published, rel=0.01)
    (remark,) = notes
    assert "no constant is fitted to runs of such layers" in remark


@pytest.mark.parametrize("name", ACTIVE)
def test_a_token_meets_as_many_as_published(name: str) -> None:
    published, whole = ACTIVE[name]
    model, _ = training_model(PUBLISHED[name][0], name)
    tables = (2.0 - model.tied) * model.vocab * model.hidden if whole else 0.0
    met = model.layers * float(active_parameters(table_of(model))[0]) + tables
    assert met / 1e9 == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_layer_is_of_some_kind(name: str) -> None:
    config, _ = PUBLISHED[name]
    kinds = layer_kinds(config, name)
    assert kinds is not None
    assert kinds.mixer is not None
    assert kinds.mixer.kind in list(MixerKind)
    assert 0 < kinds.mixed <= kinds.layers
    assert kinds.bare <= kinds.attention + kinds.mixed
    assert kinds.attention + kinds.mixed in {
        kinds.layers, 2 * kinds.layers, kinds.bare
    }  # fmt: skip


def test_a_list_of_words_says_what_a_pattern_says() -> None:
    """Releases of the transformers library write the list in other words."""
    pattern = configurations.NEMOTRON_3_NANO
    plain = {k: v for k, v in pattern.items() if k != "hybrid_override_pattern"}
    plain.pop("num_hidden_layers")
    letters = pattern["hybrid_override_pattern"]
    for words in (
        {"M": "mamba", "*": "attention", "E": "moe"},
        {"M": "linear_attention", "*": "full_attention", "E": "moe"},
    ):
        listed = plain | {"layers_block_type": [words[letter] for letter in letters]}
        assert training_model(listed, "n") == training_model(pattern, "n")


def test_a_list_of_types_says_what_numbers_of_layers_say() -> None:
    saved = training_model(configurations.KIMI_SAVED, "k")
    assert saved == training_model(configurations.KIMI_LINEAR, "k")


def test_the_text_part_of_a_model_with_images_is_enough() -> None:
    whole = {"model_type": "qwen3_5_moe", "text_config": configurations.QWEN3_5}
    whole["vision_config"] = {"depth": 27, "hidden_size": 1152}
    model, notes = training_model(whole, "q")
    assert model == training_model(configurations.QWEN3_5, "q")[0]
    assert "only text_config is planned, without vision_config" in notes


def test_sizes_of_delta_nets_follow_from_the_width_where_unsaid() -> None:
    mixer = training_model(configurations.OLMO_HYBRID, "o")[0].mixer
    assert mixer is not None
    assert (mixer.layers, mixer.heads, mixer.key_heads) == (24, 30, 30)
    assert (mixer.key_size, mixer.value_size) == (96, 192)


def test_layers_of_a_hybrid_may_all_be_attention() -> None:
    config = configurations.GRANITE_MICRO | {"layer_types": ["attention"] * 40}
    model, _ = training_model(config, "dense")
    assert model.mixer is None
    assert model.attention_layers == model.layers == 40


def test_the_first_layer_may_be_the_one_with_attention() -> None:
    config = configurations.JAMBA | {"attn_layer_offset": 0}
    assert training_model(config, "j")[0].attention_layers == 4


def test_channels_of_a_selective_scan_share_out_like_heads() -> None:
    plain = {k: v for k, v in configurations.MAMBA.items() if k != "hidden_size"}
    model, _ = training_model(plain | {"d_model": 2560}, "m")
    assert (model.heads, model.attention_layers) == (2560, 0)
    assert model.mixer is not None
    assert model.mixer.heads == 5120


def test_experts_that_no_layer_has_are_none() -> None:
    config = configurations.NEMOTRON_H_8B | {"n_routed_experts": 8, "num_experts_per_tok": 2}
    assert training_model(config, "n")[0].experts == 0


@pytest.mark.parametrize(
    ("base", "change", "what"),
    [
        ("NEMOTRON_H_8B", {"hybrid_override_pattern": "M-Q*"}, "hybrid_override_pattern has 'Q'"),
        ("NEMOTRON_H_8B", {"hybrid_override_pattern": "M-M*"}, "has 4 layers, num_hidden_layers"),
        ("NEMOTRON_H_8B", {"hybrid_override_pattern": None}, "does not say which kind each layer"),
        ("NEMOTRON_H_8B", {"n_groups": 3}, "n_groups is 3, which does not divide 128 heads"),
        ("QWEN3_NEXT", {"layer_types": ["conv"] * 48}, "layer_types has 'conv'"),
        ("QWEN3_NEXT", {"linear_num_key_heads": 5}, "linear_num_key_heads is 5"),
        ("QWEN3_NEXT", {"attn_output_gate": 1}, "attn_output_gate is 1"),
        ("MINIMAX_TEXT", {"attn_type_list": [[]] * 80}, "attn_type_list is no list of 0 and 1"),
        ("MINIMAX_TEXT", {"attn_type_list": [2] * 80}, "attn_type_list is no list of 0 and 1"),
        ("KIMI_LINEAR", {"mla_use_output_gate": True}, "mla_use_output_gate is True"),
        ("KIMI_LINEAR", {"linear_attn_config": {}}, "does not say which layers are linear"),
        ("BAMBA", {"mamba_n_heads": 100, "mamba_d_head": None}, "does not divide 8192 channels"),
        ("JAMBA", {"attn_layer_period": 0}, "attn_layer_period is 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_names_its_field(base: str, change: dict[str, Any], what: str) -> None:
    config = getattr(configurations, base) | change
    with pytest.raises(ModelError, match=what.replace("*", r"\*")):
        training_model(config, "broken")


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("zamba2", "num_mem_blocks"), ("rwkv7", "attention_hidden_size"), ("lfm2", "conv_L_cache"),
        ("recurrent_gemma", "lru_width"),
    ],
)  # fmt: skip
def test_kinds_without_a_price_are_refused_by_their_field(kind: str, field: str) -> None:
    config = configurations.BAMBA | {"model_type": kind, field: 8}
    with pytest.raises(ModelError, match="has no price") as refused:
        sized(config, "strange")
    assert field in str(refused.value)
    assert all(name in str(refused.value) for name in MIXED)


def test_kinds_of_layers_change_nothing_of_a_plain_transformer() -> None:
    """The mean layer of a transformer has attention, a feed-forward block and nothing else."""
    plain = TrainingModel("plain", 2048, 16, 16, 8, 128, 5632, 32000)
    mixing = table_of(plain).mixing
    assert float(mixing.attention[0]) == 1.0
    assert float(mixing.blocks[0]) == 2.0
    for name in ("share", "bare", "query_gate", "latent", "flops", "moved", "kept"):
        assert not np.any(getattr(mixing, name)), name
