"""Architectures by the sizes of their configurations alone, for who needs no operators.

A layout of a transformer is priced by its sizes. That takes no blocks, so more architectures are
known here than `importers.hf_families` builds; of those of both only what is said there holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from importers.errors import ModelError
from importers.hf_families import FAMILIES
from importers.hf_fields import Fields
from importers.hf_mixers import MIXED, LayerKinds, completed, layer_kinds
from importers.hf_network import strangeness, text_part, usual_widths
from importers.hf_plain import PLAIN, Plain, plain_decoder

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


def _refuse_unpriced(config: Mapping[str, object], where: str) -> None:
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


__all__ = ["Sized", "sized"]

_ALL_LOCAL = 10**6
"""More layers than any model has: none looks further than its window."""


_GLOBAL_EVERY = {"gemma2": 2, "gemma3_text": 6, "gpt_oss": 2, "cohere2": 4}
"""One layer in so many sees the whole sequence, where the configuration does not say."""


@dataclass(frozen=True, slots=True)
class Sized:
    """What a layout needs to know of a network."""

    fields: Fields
    gated: bool
    tied: bool
    causal: bool
    activation_kernels: int
    expert_biases: bool
    key_heads: int
    feed_forward: int
    experts: int
    """Routed experts; 0 for a dense model."""
    expert_groups: int
    """Groups of experts of which a token visits `best_groups`; 0 where its choice is among all."""
    best_groups: int
    expert_width: int
    shared_width: int
    dense_layers: int
    further: int
    """Tokens behind the next one that are predicted, each by a layer behind the others."""
    window: int
    """Rows that a local layer looks back, 0 for none."""
    global_every: int
    kinds: LayerKinds | None
    """Where layers are of several kinds; `None` where all have attention and a feed-forward
    block."""
    notes: tuple[str, ...]
    """What was assumed, and what is left out."""


def sized(config: Mapping[str, object], name: str) -> Sized:
    """The sizes of a network of text with one stack of layers.

    Args:
        config: fields of its config.json.
        name: for messages.

    Raises:
        ModelError: a size is missing or cannot be, or it is no such network.
    """
    notes: list[str] = []
    config = _spelled(text_part(config, notes))
    _refuse_unpriced(config, name)
    kinds = layer_kinds(config, name)
    config = config if kinds is None else completed(Fields(config, name, {}), kinds)
    kind = str(config.get("model_type"))
    plain = _plain(config, name, notes)
    fields = Fields(config, name, plain.defaults)
    if fields.count("hidden") < fields.count("heads"):
        raise fields.wrong("heads", f"is more than the width of {fields.count('hidden')}")
    stated = "head width" in fields or "plain width" in fields
    if not stated and fields.count("hidden") % fields.count("heads"):
        raise fields.wrong("heads", f"does not divide the width of {fields.count('hidden')}")
    experts = _experts(fields, kind, kinds)
    window, every = _window(fields, kind)
    return Sized(
        fields=fields,
        gated=plain.gated,
        tied=fields.flag("tied", default=plain.tied),
        causal=plain.causal,
        activation_kernels=plain.activation_kernels,
        expert_biases=plain.expert_biases,
        key_heads=_key_heads(fields, kind),
        feed_forward=_feed_forward(fields, kind),
        kinds=kinds,
        further=_further(fields),
        window=window,
        global_every=every,
        notes=tuple(notes),
        **experts,
    )


def _plain(config: Mapping[str, object], where: str, notes: list[str]) -> Plain:
    """What the architecture leaves unsaid; a guess where it is not known."""
    kind = str(config.get("model_type"))
    family = FAMILIES.get(kind)
    if kind in PLAIN:
        found = plain_decoder(config, where)
        return found if family is None else replace(found, defaults=family.defaults)
    if family is not None:
        return Plain(family.gated, family.tied, family.form == "decoder", defaults=family.defaults)
    plain = plain_decoder(config, where)
    strange = strangeness(config, Fields(config, where, {}))
    if strange:
        raise ModelError(
            f"an architecture {kind!r:.60} is not known, and {strange}",
            where,
            "give the config.json of a transformer of text",
        )
    notes.append(
        f"an architecture {kind!r:.60} is not known: it is taken for a decoder "
        f"{'with' if plain.gated else 'without'} a gate in its feed-forward blocks"
    )
    return plain


def _spelled(config: Mapping[str, object]) -> Mapping[str, object]:
    """The fields of attention and feed-forward blocks beside the others; Qwen's and Llama 4's
    widths by their usual names.
    """
    found: dict[str, object] = {}
    for part in ("attn_config", "ffn_config"):
        inner = config.get(part)
        found.update(inner if isinstance(inner, dict) else {})
    found.update(config)
    return found | usual_widths(found) | _longcat(found)


def _longcat(config: Mapping[str, object]) -> dict[str, object]:
    """LongCat-Flash: two dense blocks stand beside the experts of a layer, and of those that a
    token takes, some do nothing and have no parameters.
    """
    names = ("ffn_hidden_size", "n_routed_experts", "zero_expert_num", "moe_topk")
    sizes = [each for each in map(config.get, names) if isinstance(each, int)]
    if config.get("model_type") != "longcat_flash" or len(sizes) < len(names) or min(sizes) < 1:
        return {}
    width, count, idle, best = sizes
    real = max(round(best * count / (count + idle)), 1)
    return {"shared_expert_intermediate_size": 2 * width, "moe_topk": real}


def _key_heads(fields: Fields, kind: str) -> int:
    """Heads of keys and values; one where a field says that all queries share it."""
    config, heads = fields.config, fields.count("heads")
    if config.get("multi_query_attention") is False or config.get("multi_query") is False:
        return heads if kind != "falcon" else fields.count("key heads", heads)
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        return 1
    return fields.count("key heads", heads)


def _feed_forward(fields: Fields, kind: str) -> int:
    """Width of a dense feed-forward block; Qwen of 2023 counts both halves of it."""
    ratio = fields.count("feed-forward ratio", 4)
    width = fields.count("feed-forward", ratio * fields.count("hidden"))
    return width // 2 if kind == "qwen" else width


def _experts(fields: Fields, kind: str, kinds: LayerKinds | None) -> dict[str, int]:
    """Experts, their groups and widths, and how many layers are dense."""
    count = fields.count("experts", 0)
    if count <= 1:
        names = ("experts", "expert_groups", "best_groups", "expert_width", "shared_width")
        return dict.fromkeys((*names, "dense_layers"), 0)
    layers, first = fields.count("layers"), fields.count("first expert layer", 0)
    interval = fields.field("expert interval")
    if kinds is not None and kinds.routed is not None:
        routed = kinds.routed
    elif interval is not None and isinstance(fields.config[interval], list):
        routed = sum(each > 0 for each in fields.whole_numbers("expert interval")[:layers])
    else:
        routed = max(layers - first, 0) // fields.count("expert interval", 1)
    layers -= kinds.bare if kinds is not None else 0
    routed -= sum(each >= first for each in set(fields.whole_numbers("dense layers")))
    if routed < 1:
        raise fields.wrong("experts", "has no layer to stand in: all are dense")
    stated = "expert width" in fields
    width = fields.count("expert width") if stated else fields.count("feed-forward")
    return {
        "experts": count,
        **_groups(fields, kind),
        "expert_width": width,
        "shared_width": fields.count("shared width", fields.count("shared experts", 0) * width),
        "dense_layers": layers - routed,
    }


def _groups(fields: Fields, kind: str) -> dict[str, int]:
    """Groups that limit the choice of experts: DeepSeek-V2 has to say so, others not to."""
    usual = "greedy" if kind == "deepseek_v2" else ""
    groups = fields.count("groups", 1)
    if groups == 1 or fields.config.get("topk_method", usual) == "greedy":
        return {"expert_groups": 0, "best_groups": 0}
    return {"expert_groups": groups, "best_groups": fields.count("best groups", groups)}


def _further(fields: Fields) -> int:
    """Layers that predict further tokens; MiniMax says beside their number whether there are any.

    The library transformers builds none of them, training software does: Megatron-Bridge sets
    `mtp_num_layers` to what these fields say.
    """
    return 0 if fields.config.get("use_mtp") is False else fields.count("MTP layers", 0)


def _window(fields: Fields, kind: str) -> tuple[int, int]:
    """The window of local layers, and one in how many layers has none."""
    config = fields.config
    if fields.field("window") is None or config.get("use_sliding_window") is False:
        return 0, 1
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and kinds:
        whole = kinds.count("full_attention")
        every = len(kinds) // whole if whole else _ALL_LOCAL
    else:
        every = fields.count("window pattern", _GLOBAL_EVERY.get(kind, _ALL_LOCAL))
    return (fields.count("window"), every) if every > 1 else (0, 1)
