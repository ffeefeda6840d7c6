"""The sizes of published models."""

from __future__ import annotations

import re

import pytest

import data
from importers.hf_network import KNOWN
from importers.sizes import published, published_names

SOURCES = data.read_yaml("sources.yaml")


@pytest.mark.parametrize("name", published_names())
def test_every_model_has_known_sources_and_its_family(name: str) -> None:
    found = published(name)
    assert found.source
    assert set(found.source) <= set(SOURCES)
    assert found.page
    assert found.config["model_type"] in KNOWN
    assert re.fullmatch(r"[\d.]+ [MBT]", found.parameters)
    assert all(isinstance(v, int | float | str | bool | list) for v in found.config.values())


def test_every_family_of_the_brief_has_a_published_model() -> None:
    kinds = {published(name).config["model_type"] for name in published_names()}
    assert kinds >= {
        "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "deepseek_v2", "deepseek_v3",
        "gemma", "gemma2", "gemma3_text", "gpt2", "bert", "t5", "vit", "whisper", "kimi_k2",
        "gpt_oss", "llama4_text", "minimax_m2", "seed_oss", "qwen3_5_text", "qwen3_5_moe_text",
    }  # fmt: skip
