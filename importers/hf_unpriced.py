"""Architectures that have layers without a formula: they are refused by the field that says so."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.errors import ModelError
from importers.hf_mixers import MIXED

__all__ = ["refuse_unpriced"]

_SHARED_BLOCKS = "it has blocks of attention that several layers share"
_UNPRICED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "zamba": ("attn_layer_period", _SHARED_BLOCKS),
        "zamba2": ("num_mem_blocks", _SHARED_BLOCKS),
        "recurrent_gemma": ("lru_width", "its recurrence is one of single channels"),
        "lfm2": ("conv_L_cache", "its layers are short convolutions"),
        "lfm2_moe": ("conv_L_cache", "its layers are short convolutions"),
        "xlstm": ("slstm_at", "its layers are long short-term memories"),
        **dict.fromkeys(
            ("rwkv", "rwkv5", "rwkv6", "rwkv7"),
            ("attention_hidden_size", "its layers mix tokens as RWKV does"),
        ),
    }
)
"""Architectures that have no price: the field that says so, and why."""


def refuse_unpriced(config: Mapping[str, object], where: str) -> None:
    """Refuse an architecture with a kind of layer that has no formula.

    Raises:
        ModelError: it has one.
    """
    kind = str(config.get("model_type"))
    if kind in _UNPRICED:
        name, why = _UNPRICED[kind]
        raise ModelError(
            f"a layout of an architecture {kind!r} has no price: {why}",
            f"{name if name in config else 'model_type'} in {where}",
            f"name a transformer, or one of {', '.join(sorted(MIXED))}",
        )
