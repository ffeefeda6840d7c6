"""Published models, and networks by their sizes."""

from __future__ import annotations

import re

import pytest

from importers.errors import ModelError
from importers.hf_config import import_config
from importers.sizes import (
    PLAIN,
    configuration,
    import_published,
    published,
    published_names,
    with_sizes,
)
from ir.normalise import normalise
from ir.ops import OpView, check_operators, lookup

PARAMETERS = {
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v2-lite": 15_706_484_224,
    # The files have 256 numbers for each of 58 layers more, which correct the router untrained.
    "deepseek-v3": 671_026_419_200 - 58 * 256,
    "gemma-7b": 8_537_680_896,
    "gemma2-27b": 27_227_128_320,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama2-7b": 6_738_415_616,
    "llama3-70b": 70_553_706_496,
    "llama3-8b": 8_030_261_248,
    "llama3.1-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x22b": 140_620_634_112,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2-72b": 72_706_203_648,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen3-32b": 32_762_123_264,
    "qwen3-8b": 8_190_735_360,
    "t5-11b": 11_307_321_344,
    "t5-base": 222_903_552,
    "vit-base": 86_567_656,
    "vit-large": 304_326_632,
    # The file has the fixed positions of the encoder too.
    "whisper-large-v3": 1_543_490_560 - 1500 * 1280,
}
"""As the weight files of these models have them."""
_UNITS = {"M": 1e6, "B": 1e9, "T": 1e12}


@pytest.mark.parametrize("name", published_names())
def test_a_published_model_has_as_many_parameters_as_published(name: str) -> None:
    graph = import_published(name)
    check_operators(graph)
    found = sum(t.elements for t in graph.parameters)
    assert found == PARAMETERS.get(name, found)
    number, unit = published(name).parameters.split()
    digits = len(number.replace(".", ""))
    assert found == pytest.approx(float(number) * _UNITS[unit], rel=5 * 10.0**-digits)


def test_a_token_passes_two_operations_for_each_weight_that_it_meets() -> None:
    """2 N for the products with weights, 4 s h for each layer's attention; DeepSeek-V3 uses 37 B of
    its 671 B parameters for a token.

    Source: Kaplan et al., arXiv 2001.08361, table 1; DeepSeek-V3, arXiv 2412.19437, abstract.
    """
    tokens = 4096
    graph = normalise(import_published("deepseek-v3", {"sequence": tokens}))
    flops = sum(lookup(op.kind).flops(OpView(op, graph)) for op in graph.ops)
    attention = 61 * 2 * tokens * 128 * (192 + 128)
    activated = (flops / tokens - attention) / 2
    assert activated == pytest.approx(37e9, rel=0.02)


def test_sizes_alone_describe_a_network() -> None:
    sizes = {
        "layers": 2, "hidden": 64, "heads": 8, "key heads": 4, "feed-forward": 128,
        "vocabulary": 256,
    }  # fmt: skip
    config = with_sizes(PLAIN, sizes)
    graph = import_config(config, "mine", "a test", {"sequence": 8})
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64
    assert sum(t.elements for t in graph.parameters) == 2 * layer + 2 * 256 * 64 + 64
    experts = with_sizes(config, {"experts": 4, "experts per token": 2, "expert width": 32})
    assert experts["model_type"] == "mixtral"
    graph = import_config(experts, "mine", "a test", {"sequence": 8})
    layer += 4 * 3 * 64 * 32 + 4 * 64 - 3 * 64 * 128
    assert sum(t.elements for t in graph.parameters) == 2 * layer + 2 * 256 * 64 + 64


def test_a_size_takes_the_name_that_the_fields_have_for_it() -> None:
    changed = with_sizes(published("gpt2").config, {"layers": 3})
    assert changed["n_layer"] == 3
    assert "num_hidden_layers" not in changed
    assert published("gpt2").config["n_layer"] == 12


def test_experts_need_a_number_for_each_token() -> None:
    with pytest.raises(ModelError, match="how many experts a token takes is not given"):
        with_sizes(PLAIN, {"experts": 8})
    assert with_sizes(published("mixtral-8x7b").config, {"experts": 16})["num_local_experts"] == 16


def test_a_model_is_found_by_its_name() -> None:
    assert configuration("gpt2") == published("gpt2").config
    with pytest.raises(ModelError, match=re.escape("did you mean 'llama3-70b'?")):
        configuration("llama3-7b-0")
    with pytest.raises(ModelError, match="neither a file nor a published model"):
        configuration("../gpt2.yaml".rpartition("/")[2])
