"""A config.json that is none, or not of a network: one clear error, in bounded time and memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from importers.errors import ModelError
from importers.hf_config import MOST_BYTES, import_config, import_hf_config
from importers.hf_fields import FIELDS
from ir.graph import OpGraph
from tests.importers.configurations import SMALL, short

STRANGE: list[Any] = [
    None, True, -1, 0, 1, 2.5, float("nan"), float("inf"), "8", "x" * 100_000, [], [1], [[[[]]]],
    {}, 10**30, 2**63,
]  # fmt: skip
KNOWN = {name for names in FIELDS.values() for name in names} | {
    "model_type", "architectures", "id2label", "topk_method", "text_config", "is_encoder_decoder",
}  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["llama", "deepseek_v3", "qwen2_moe", "gpt2", "bert", "vit", "t5", "whisper"]
)
def test_a_strange_value_is_an_error_or_a_network(kind: str) -> None:
    """Each field that any family reads, with each strange value."""
    fields = (KNOWN & SMALL[kind].keys()) | {"attention_bias", "num_key_value_heads", "v_head_dim"}
    for field in sorted(fields):
        for value in STRANGE:
            found = _imported(SMALL[kind] | {field: value}, short(kind))
            if isinstance(found, ModelError):
                assert "fix: " in str(found)
                assert len(str(found)) < 1000
            else:
                found.validate()


def _imported(config: dict[str, Any], bind: dict[str, int]) -> OpGraph | ModelError:
    try:
        return import_config(config, "n", "a file", bind)
    except ModelError as error:
        return error


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "hidden_size",
            10**30,
            "hidden_size is 1000000000000000000000000000000, which is not betw",
        ),
        ("hidden_size", "64", "hidden_size is '64', which is no whole number"),
        ("vocab_size", True, "vocab_size is True, which is no whole number"),
        ("hidden_size", None, "the configuration gives no size of hidden"),
        ("hidden_size", 12, "num_attention_heads is 8, which does not divide the hidden size 12"),
        ("num_hidden_layers", 10**6, "num_hidden_layers is 1000000, which is not between 1 and"),
        ("num_key_value_heads", 3, "num_key_value_heads is 3, which does not divide the 8 heads"),
        ("head_dim", 7, "head_dim is 7, which makes heads of 7, which rotary positions halve"),
        ("hidden_act", "magic", "hidden_act is 'magic', which is none of silu, "),
        ("torch_dtype", "int3", "torch_dtype is 'int3', which is none of bfloat16, "),
        ("tie_word_embeddings", "no", "tie_word_embeddings is 'no', which is neither true nor"),
        ("num_local_experts", 8, "the configuration gives no size of experts per token"),
    ],
)
def test_the_error_names_the_field(field: str, value: object, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        import_config(SMALL["llama"] | {field: value}, "n", "config.json")
    assert str(caught.value).startswith(message)
    assert "config.json" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("deepseek_v3", {"num_experts_per_tok": 5}, "is more than the 4 experts"),
        ("deepseek_v3", {"n_group": 3}, "n_group is 3, which does not divide the 4 experts"),
        ("deepseek_v3", {"topk_group": 3}, "topk_group is 3, which is more than the 2 groups"),
        ("deepseek_v3", {"n_group": 4}, "topk_group is 1, which leaves fewer experts than a"),
        ("deepseek_v3", {"qk_rope_head_dim": 7}, "qk_rope_head_dim is 7, which is odd"),
        ("deepseek_v3", {"moe_layer_freq": [1]}, "has not one number for each of 2 layers"),
        ("qwen3_moe", {"mlp_only_layers": "all"}, "is no list of whole numbers"),
        ("vit", {"patch_size": 5}, "image_size is 16, which does not consist of patches of 5"),
        ("t5", {"feed_forward_proj": "gated-magic"}, "feed_forward_proj is 'gated-magic', which"),
        ("gpt2", {"n_positions": None}, "the configuration gives no size of positions"),
        ("whisper", {"num_mel_bins": None}, "the configuration gives no size of bins"),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused(
    kind: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message.replace("[", r"\[")):
        import_config(SMALL[kind] | fields, "n", "a file")


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        ({"sequence": 10**12}, "sequence is 1000000000000, which is not between 1 and"),
        ({"batch": 10**12}, "batch is 1000000000000, which is not between 1 and"),
        ({"length": 8}, "n has no open dimension 'length'; it has batch, sequence"),
    ],
)
def test_a_dimension_is_bound_to_what_it_can_be(bind: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_config(SMALL["llama"], "n", "a file", bind)


def test_a_sequence_is_no_longer_than_the_positions_that_are_learned() -> None:
    with pytest.raises(ModelError, match="65 is longer than the 64 positions"):
        import_config(SMALL["gpt2"], "n", "a file", {"sequence": 65})
    with pytest.raises(ModelError, match="17 is longer than the 16 positions"):
        import_config(SMALL["whisper"], "n", "a file", {"target_sequence": 17})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no JSON"),
        (bytes(range(256)), "is no JSON"),
        (b"[]", "holds no JSON object"),
        (b'{"a":' * 100_000, "is nested too deeply"),
        (b'{"hidden_size":' + b"9" * 100_000 + b"}", "is no JSON"),
        (b" " * (MOST_BYTES + 1), f"is larger than {MOST_BYTES} bytes"),
        (b"{}", "an architecture without a model_type is not known"),
        (b'{"model_type": "rwkv"}', "an architecture 'rwkv' is not known, and it gives no size"),
        (b'{"model_type": {"a": 1}}', "an architecture {'a': 1} is not known"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        import_hf_config(path)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).count("fix:") == 1


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path, "is a folder"), (tmp_path / "none.json", "cannot read"),
        (Path("/dev/zero"), "is no regular file"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=message):
            import_hf_config(path)


def test_the_largest_sizes_are_read_in_bounded_memory(tmp_path: Path) -> None:
    """A graph has names and sizes alone; a layer of it takes some kilobytes."""
    config = SMALL["llama"] | {
        "num_hidden_layers": 64, "hidden_size": 2**20, "intermediate_size": 2**20,
        "num_attention_heads": 2**14, "num_key_value_heads": 2**14, "vocab_size": 2**26,
        "num_local_experts": 2**16, "num_experts_per_tok": 2**16,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    graph = import_hf_config(path, {"sequence": 2**24, "batch": 2**24})
    assert len(graph.ops) < 100 * 64
    assert sum(t.elements for t in graph.parameters) > 2**60
