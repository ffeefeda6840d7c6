"""Networks from a config.json: every family, what it means, what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from executors.evaluation import Evaluator
from executors.reference import given_tensors
from executors.values import numbers
from executors.verdict import verify
from importers.errors import ModelError
from importers.hf_config import constant_values, import_config, import_hf_config, open_dimensions
from importers.hf_families import FAMILIES
from importers.hf_fields import FIELDS
from importers.hf_sized import sized
from ir.batch import with_batch
from ir.graph import OpGraph
from ir.normalise import normalise
from ir.symbols import Symbol
from planner.request import SearchRequest
from planner.search import search
from tests.importers.configurations import DECODER, SMALL, short
from topology.catalogue import named_cluster


def small(kind: str, **fields: Any) -> OpGraph:
    return import_config(SMALL[kind] | fields, kind, "a test", short(kind))


def parameters(graph: OpGraph) -> dict[str, tuple[int, ...]]:
    return {t.name: t.dims for t in graph.parameters}


def kinds(graph: OpGraph) -> set[str]:
    return {op.kind for op in graph.ops}


def test_every_family_has_a_small_configuration() -> None:
    assert set(SMALL) == set(FAMILIES)


@pytest.mark.parametrize("kind", SMALL)
def test_a_plan_of_every_family_computes_what_the_whole_network_does(kind: str) -> None:
    request = SearchRequest(batch=4, target="jax")
    plan = search(small(kind), named_cluster("dgx-a100", 4), request)
    names = given_tensors(plan)
    held = constant_values(SMALL[kind], "a test", names, short(kind))
    assert verify(plan, numbers(plan.graph, names, held, 0), Evaluator()).passed


@pytest.mark.parametrize("kind", SMALL)
def test_a_batch_set_later_is_the_batch_built_with(kind: str) -> None:
    later = with_batch(small(kind), 6)
    built = import_config(SMALL[kind], kind, "a test", {**short(kind), "batch": 6})
    assert {n: t.dims for n, t in built.tensors.items() if n in later.tensors} == {
        n: t.dims for n, t in later.tensors.items() if n in built.tensors
    }
    assert {t.name for t in built.parameters} == {t.name for t in later.parameters}


@pytest.mark.parametrize("kind", SMALL)
def test_attention_is_recognised_in_every_layer_of_every_family(kind: str) -> None:
    made = [op for op in normalise(small(kind)).ops if op.kind == "Attention"]
    assert len(made) == {"t5": 6, "whisper": 6}.get(kind, 2)


def test_the_sequence_is_what_is_asked_for() -> None:
    graph = import_config(SMALL["llama"], "llama", "a test", {"sequence": 24, "batch": 3})
    assert graph.tensors["input_ids"].dims == (3, 24)
    assert graph.symbols == {"batch": 3, "sequence": 24}
    assert graph.notes == ()


def test_without_a_sequence_it_is_as_long_as_there_are_positions_up_to_4096() -> None:
    graph = import_config(SMALL["llama"], "llama", "a test")
    assert graph.tensors["input_ids"].dims == (1, 64)
    assert graph.notes == ("sequence 64 by default; --bind sequence=N sets it",)
    long = import_config(
        {**DECODER, "model_type": "llama", "max_position_embeddings": 9999}, "l", ""
    )
    assert long.tensors["input_ids"].dims == (1, 4096)


def test_a_target_is_as_long_as_its_source_unless_bound() -> None:
    graph = import_config(SMALL["t5"], "t5", "a test", {"sequence": 12})
    assert graph.tensors["decoder_input_ids"].dims == (1, 12)
    graph = import_config(SMALL["t5"], "t5", "a test", {"sequence": 12, "target_sequence": 5})
    assert graph.tensors["decoder_input_ids"].dims == (1, 5)
    found = tuple((dim.tensor, dim.axis, dim.name) for dim in open_dimensions(graph))
    assert found == (
        ("input_ids", 0, "batch"),
        ("input_ids", 1, "sequence"),
        ("decoder_input_ids", 0, "batch"),
        ("decoder_input_ids", 1, "target_sequence"),
    )


def test_a_range_of_sequences_gives_variants() -> None:
    bind = {"sequence": Symbol(8, 32, 8)}
    graph = import_config(SMALL["llama"], "llama", "a test", bind)
    assert graph.tensors["input_ids"].dims == (1, 32)
    assert {v.tensors["input_ids"].dims[1] for v in graph.variants} >= {24, 16}


def test_query_heads_share_key_heads() -> None:
    found = parameters(small("llama"))
    assert found["model.layers.0.self_attn.q_proj.weight"] == (64, 64)
    assert found["model.layers.0.self_attn.k_proj.weight"] == (32, 64)


def test_a_tied_head_is_the_table_of_the_embedding() -> None:
    assert "lm_head.weight" in parameters(small("llama"))
    assert "lm_head.weight" not in parameters(small("llama", tie_word_embeddings=True))
    assert "lm_head.weight" not in parameters(small("gemma"))
    assert "lm_head.weight" in parameters(small("gemma", tie_word_embeddings=False))


def test_biases_are_those_of_the_family_and_of_the_configuration() -> None:
    def biased(graph: OpGraph) -> set[str]:
        layer = "model.layers.0.self_attn."
        return {n[len(layer) :] for n in parameters(graph) if n.startswith(layer) and "bias" in n}

    three = {"q_proj.bias", "k_proj.bias", "v_proj.bias"}
    assert biased(small("llama")) == set()
    assert biased(small("llama", attention_bias=True)) == three | {"o_proj.bias"}
    assert biased(small("qwen2")) == three
    assert biased(small("deepseek_v3", attention_bias=True)) == {
        "q_a_proj.bias", "kv_a_proj_with_mqa.bias", "o_proj.bias",
    }  # fmt: skip
    assert "vit.layers.0.attention.q_proj.bias" not in parameters(small("vit", qkv_bias=False))
    assert "vit.layers.0.attention.o_proj.bias" in parameters(small("vit", qkv_bias=False))


def test_experts_stand_in_the_layers_that_the_configuration_says() -> None:
    def layers(graph: OpGraph) -> set[int]:
        names = [n.split(".") for n in parameters(graph) if n.endswith("experts.down_proj")]
        return {int(parts[2]) for parts in names}

    assert layers(small("mixtral")) == {0, 1}
    assert layers(small("deepseek_v3")) == {1}
    assert layers(small("qwen3_moe", num_hidden_layers=4, decoder_sparse_step=2)) == {1, 3}
    assert layers(small("qwen3_moe", num_hidden_layers=4, mlp_only_layers=[0, 2])) == {1, 3}
    assert layers(small("deepseek_v3", num_hidden_layers=4, moe_layer_freq=[1, 0, 0, 1])) == {0, 3}


def test_a_router_limits_groups_only_where_its_family_does() -> None:
    assert "ScatterElements" in kinds(small("deepseek_v3"))
    assert "ScatterElements" in kinds(small("deepseek_v2"))
    assert "ScatterElements" not in kinds(small("deepseek_v2", topk_method="greedy"))
    assert "ScatterElements" not in kinds(small("mixtral"))


def test_a_bound_on_scores_keeps_attention_one_operator() -> None:
    (first, *_) = [op for op in small("gemma2").ops if op.kind == "Attention"]
    assert first.attributes["softcap"] == 50.0
    assert "Softmax" not in kinds(small("gemma2"))
    assert "Attention" not in kinds(small("gemma2", attn_logit_softcapping=0))


def test_an_encoder_has_the_head_that_it_is_named_for() -> None:
    assert "cls.predictions.transform.dense.weight" in parameters(small("bert"))
    plain = small("bert", architectures=["BertModel"])
    assert plain.tensors[plain.outputs[0]].dims == (1, 8, 64)


def test_labels_are_counted() -> None:
    graph = small("vit", id2label={str(i): "x" for i in range(5)})
    assert graph.tensors[graph.outputs[0]].dims == (1, 5)


def test_an_unknown_architecture_is_taken_for_a_decoder_and_says_so() -> None:
    graph = import_config({**DECODER, "model_type": "newest"}, "n", "a test", {"sequence": 8})
    assert parameters(graph) == parameters(small("llama"))
    assert graph.notes[0].startswith("an architecture 'newest' is not known: it is taken for")
    mixed = {**SMALL["mixtral"], "model_type": "newest"}
    assert parameters(import_config(mixed, "n", "a test", {"sequence": 8})) == parameters(
        small("mixtral")
    )


def test_an_unknown_architecture_without_a_gate_has_none() -> None:
    for kind, act in (("gpt_neox", "gelu_fast"), ("newest", "gelu")):
        fields = {**DECODER, "model_type": kind, "hidden_act": act}
        graph = import_config(fields, "n", "a test", {"sequence": 8})
        assert not any("gate" in name for name in parameters(graph))
        assert "a plain feed-forward block" in graph.notes[0]


@pytest.mark.parametrize(
    "field", ["type_vocab_size", "image_size", "encoder_layers", "mamba_d_state", "linear_key_dim"]
)
def test_an_unknown_architecture_that_is_no_decoder_is_refused(field: str) -> None:
    with pytest.raises(ModelError, match=rf"'newest' is not known, and {field} says"):
        import_config({**DECODER, "model_type": "newest", field: 4}, "n", "a test")


def test_a_name_that_is_nearly_one_is_corrected() -> None:
    with pytest.raises(ModelError, match="did you mean 'whisper'"):
        import_config({"model_type": "wisper"}, "n", "a test")


def test_the_language_model_of_several_parts_is_planned() -> None:
    whole = {
        "model_type": "gemma3", "text_config": SMALL["gemma3_text"], "torch_dtype": "bfloat16",
        "vision_config": {"hidden_size": 8},
    }  # fmt: skip
    graph = import_config(whole, "g", "a test", {"sequence": 8})
    assert parameters(graph) == parameters(small("gemma3_text"))
    assert "only text_config is planned, without vision_config" in graph.notes


def test_what_is_not_followed_is_noted() -> None:
    graph = small(
        "deepseek_v3", num_nextn_predict_layers=1, quantization_config={"bits": 8},
        sliding_window=4,
    )  # fmt: skip
    assert [n.split()[0] for n in graph.notes] == ["the", "quantization_config", "sliding_window"]


@pytest.mark.fast
@pytest.mark.parametrize("name", FIELDS["MTP layers"])
def test_all_names_of_further_tokens_are_known(name: str) -> None:
    fields = SMALL["deepseek_v3"] | {name: 3}
    assert f"({name}) are left out" in " ".join(small("deepseek_v3", **{name: 3}).notes)
    assert sized(fields, "a test").further == 3
    assert sized(fields | {"use_mtp": False}, "a test").further == 0
    for wrong in (-1, 65, 1.5, True):
        with pytest.raises(ModelError, match=name):
            sized(fields | {name: wrong}, "a test")


def test_the_element_type_is_that_of_the_configuration() -> None:
    def dtypes(**fields: Any) -> set[str]:
        return {t.dtype for t in small("llama", **fields).parameters}

    assert dtypes(torch_dtype="torch.bfloat16") == {"bfloat16"}
    assert dtypes(torch_dtype=None, dtype="float16") == {"float16"}
    assert dtypes(torch_dtype=None) == {"float32"}


def test_a_file_is_named_after_itself_or_its_architecture(tmp_path: Path) -> None:
    for name, wanted in (("config.json", "llama"), ("mine.json", "mine")):
        path = tmp_path / name
        path.write_text(json.dumps(SMALL["llama"]))
        assert import_hf_config(path, {"sequence": 8}).name == wanted


def test_the_same_configuration_gives_the_same_bytes() -> None:
    assert small("deepseek_v3").digest() == small("deepseek_v3").digest()
