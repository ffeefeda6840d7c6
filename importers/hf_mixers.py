"""Configurations whose layers are of several kinds: which of them have attention, a state space or
linear attention, a feed-forward block, experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from importers.errors import ModelError
from importers.hf_fields import FIELDS, Fields
from importers.transformers.records import MixerSizes

__all__ = ["MIXED", "LayerKinds", "MixerSizes", "completed", "layer_kinds"]


@dataclass(frozen=True, slots=True)
class LayerKinds:
    """Of which blocks each layer of a network consists."""

    blocks: tuple[tuple[str, ...], ...]
    """As `Stack.blocks` has them."""
    mixer: MixerSizes | None = None
    query_gate: bool = False
    expert_hidden: int = 0
    """Width of the rows that experts work on; 0 for that of the network."""
    wide: int = 0
    """Width of a dense feed-forward block, where an unusual field has it."""

    def _count(self, *kinds: str) -> int:
        return sum(any(kind in blocks for kind in kinds) for blocks in self.blocks)

    @property
    def layers(self) -> int:
        return len(self.blocks)

    @property
    def attention(self) -> int:
        """Layers with softmax attention."""
        return self._count("attention", "both")

    @property
    def mixed(self) -> int:
        """Layers with a mixer without softmax; a layer may have both."""
        return self._count("mixer", "both")

    @property
    def bare(self) -> int:
        """Layers without a feed-forward block."""
        return self.layers - self._count("mlp", "dense", "routed")

    @property
    def routed(self) -> int | None:
        """Layers with experts; `None` where the usual fields tell."""
        return None if self._count("mlp") else self._count("routed")


def layer_kinds(config: Mapping[str, object], where: str) -> LayerKinds | None:
    """The kinds of layers of an architecture of `MIXED`; `None` of any other.

    Args:
        config: fields of its config.json.
        where: for messages.

    Raises:
        ModelError: a field is missing or cannot be.
    """
    reader = MIXED.get(str(config.get("model_type")))
    return None if reader is None else reader(Fields(config, where, {}))


def completed(fields: Fields, kinds: LayerKinds) -> dict[str, object]:
    """The fields of a network with layers of several kinds, with usual ones in the place of those
    that it lacks. Without attention, what shares out its heads are those of the mixer.
    """
    found = {name: value for name, value in fields.config.items() if value is not None}
    found["num_hidden_layers"] = kinds.layers
    if kinds.attention == 0 and kinds.mixer is not None:
        channels = kinds.mixer.kind == "mamba"
        found["num_attention_heads"] = fields.count("hidden") if channels else kinds.mixer.heads
        found.pop("num_heads", None)
        found["head_dim"] = 1
    if kinds.wide:
        found["intermediate_size"] = kinds.wide
    if kinds.routed == 0:
        found = {name: value for name, value in found.items() if name not in FIELDS["experts"]}
    return found


def _text(fields: Fields, name: str, value: object, known: Iterable[str]) -> ModelError:
    return ModelError(
        f"{name} has {value!r:.40}, which is no kind of layer that has a price",
        fields.where,
        f"write {', '.join(known)}",
    )


def _listed(fields: Fields, name: str, known: Mapping[str, str]) -> list[str] | None:
    """A list or text with a kind for each layer; `None` where there is none."""
    value = fields.config.get(name)
    if value is None:
        return None
    if not isinstance(value, list | str) or not value:
        raise _text(fields, name, value, known)
    for each in value:
        if not isinstance(each, str) or each not in known:
            raise _text(fields, name, each, known)
    found = [known[each] for each in value]
    layers = fields.count("layers", len(found))
    if layers != len(found):
        raise ModelError(
            f"{name} has {len(found)} layers, num_hidden_layers is {layers}",
            fields.where,
            f"correct {name}",
        )
    return found


_BLOCKS = {
    "M": "mixer", "*": "attention", "-": "dense", "E": "routed",
    "mamba": "mixer", "attention": "attention", "mlp": "dense", "moe": "routed",
    "linear_attention": "mixer", "full_attention": "attention",
}  # fmt: skip
_TYPES = {
    "full_attention": "attention", "attention": "attention",
    "linear_attention": "mixer", "mamba": "mixer",
}  # fmt: skip


def _size(fields: Fields, meaning: str, usual: int | None = None) -> int:
    """A size, which `auto` or nothing leave to the architecture."""
    name = fields.field(meaning)
    if name is not None and fields.config[name] == "auto" and usual is not None:
        return usual
    return fields.count(meaning, usual)


def _state_space(fields: Fields, heads: int | None = None, inner: int = 0) -> MixerSizes:
    """Sizes of Mamba-2."""
    heads = _size(fields, "mixer heads", heads)
    inner = inner or _size(fields, "mixer expansion", 2) * fields.count("hidden")
    if "mixer value width" not in fields and inner % heads:
        raise fields.wrong("mixer heads", f"does not divide {inner} channels")
    groups = _size(fields, "mixer key heads", 1)
    if heads % groups:
        raise fields.wrong("mixer key heads", f"does not divide {heads} heads")
    return MixerSizes(
        "mamba2",
        heads,
        groups,
        _size(fields, "mixer key width", 128),
        _size(fields, "mixer value width", inner // heads),
        _size(fields, "mixer convolution", 4),
        _size(fields, "mixer chunk", 256),
    )


def _selective(fields: Fields) -> MixerSizes:
    """Sizes of Mamba: every channel has its own state."""
    hidden = fields.count("hidden")
    inner = _size(fields, "mixer inner", _size(fields, "mixer expansion", 2) * hidden)
    state = _size(fields, "mixer key width", 16)
    rank = _size(fields, "mixer rank", -(-hidden // 16))
    return MixerSizes("mamba", inner, 1, state, 1, _size(fields, "mixer convolution", 4), 1, rank)


def _nemotron(fields: Fields) -> LayerKinds:
    """Every layer is one block, by a letter or a word."""
    kinds = _listed(fields, "layers_block_type", _BLOCKS) or _listed(
        fields, "hybrid_override_pattern", _BLOCKS
    )
    if kinds is None:
        raise ModelError(
            "the configuration does not say which kind each layer is of",
            f"hybrid_override_pattern in {fields.where}",
            "add it, such as M-M-M*-",
        )
    return LayerKinds(
        blocks=tuple((kind,) for kind in kinds),
        mixer=_state_space(fields) if "mixer" in kinds else None,
        expert_hidden=fields.count("expert latent", 0),
    )


def _before_mlp(mixing: Iterable[str], mixer: MixerSizes) -> LayerKinds:
    """Layers with a usual feed-forward block behind what mixes rows."""
    blocks = tuple((kind, "mlp") for kind in mixing)
    mixed = any(kind != "attention" for kind, _ in blocks)
    return LayerKinds(blocks, mixer if mixed else None)


def _by_type(fields: Fields, mixer: MixerSizes, interval: int) -> LayerKinds:
    """A list of types, or softmax attention in one layer of so many; 0 for in none."""
    kinds = _listed(fields, "layer_types", _TYPES)
    if kinds is None:
        layers = fields.count("layers")
        every = fields.count("attention interval") if "attention interval" in fields else interval
        whole = [every > 0 and (i + 1) % every == 0 for i in range(layers)]
        kinds = ["attention" if each else "mixer" for each in whole]
    return _before_mlp(kinds, mixer)


def _gated_delta(fields: Fields, heads: tuple[int, int], key: int, value: int) -> MixerSizes:
    """Sizes of a gated delta net; without fields those given: heads, of keys, widths of both."""
    own, keys = _size(fields, "mixer heads", heads[0]), _size(fields, "mixer key heads", heads[1])
    if own % keys:
        raise fields.wrong("mixer key heads", f"does not divide {own} heads of values")
    key = _size(fields, "mixer key width", key)
    return MixerSizes(
        "gated-delta",
        own,
        keys,
        key,
        _size(fields, "mixer value width", value or 2 * key),
        _size(fields, "mixer convolution", 4),
        0,
    )


def _qwen(fields: Fields) -> LayerKinds:
    gate = fields.flag("query gate", default=True)
    found = _by_type(fields, _gated_delta(fields, (32, 16), 128, 128), 4)
    return replace(found, query_gate=gate)


def _olmo(fields: Fields) -> LayerKinds:
    """Keys of all heads are three quarters of the width, values twice as wide as keys."""
    heads, hidden = fields.count("heads"), fields.count("hidden")
    key = 3 * hidden // (4 * _size(fields, "mixer key heads", heads))
    return _by_type(fields, _gated_delta(fields, (heads, heads), max(key, 1), 0), 4)


def _minimax(fields: Fields) -> LayerKinds:
    heads, hidden = fields.count("heads"), fields.count("hidden")
    width = fields.count("head width", hidden // heads)
    chunk = fields.count("mixer block", 256)
    mixer = MixerSizes("lightning", heads, heads, width, width, 0, chunk)
    kinds = fields.config.get("attn_type_list")
    if kinds is None:
        return _by_type(fields, mixer, 2)
    layers = fields.count("layers")
    known = isinstance(kinds, list) and all(type(kind) is int and kind in {0, 1} for kind in kinds)
    if not isinstance(kinds, list) or not known or len(kinds) != layers:
        raise ModelError(
            f"attn_type_list is no list of 0 and 1 for each of {layers} layers",
            fields.where,
            "correct attn_type_list",
        )
    return _before_mlp(("attention" if kind else "mixer" for kind in kinds), mixer)


_KIMI_ONLY = ("mla_use_output_gate", "attn_res_block_size")
"""Fields of later networks of this architecture that nothing here follows."""


def _kimi(fields: Fields) -> LayerKinds:
    for name in _KIMI_ONLY:
        if fields.config.get(name):
            raise ModelError(
                f"{name} is {fields.config[name]!r:.40}, which has no price",
                fields.where,
                f"name a network without {name}",
            )
    found = _kimi_layers(fields)
    listed = fields.config.get("mlp_layer_types")
    if not isinstance(listed, list) or len(listed) != found.layers:
        return found
    kinds = ("routed" if kind == "sparse" else "dense" for kind in listed)
    both = zip(found.blocks, kinds, strict=True)
    return replace(found, blocks=tuple((mixing, kind) for (mixing, *_), kind in both))


def _kimi_layers(fields: Fields) -> LayerKinds:
    inner = fields.config.get("linear_attn_config")
    if inner is None and "layer_types" in fields.config:
        sizes = (fields.count("linear heads", 32), fields.count("linear head width", 128))
        return _by_type(fields, _kimi_delta(fields, *sizes), 4)
    if not isinstance(inner, dict) or not isinstance(inner.get("kda_layers"), list):
        raise ModelError(
            "the configuration does not say which layers are linear",
            f"linear_attn_config.kda_layers in {fields.where}",
            "add the list of their numbers",
        )
    own = Fields(inner, f"linear_attn_config in {fields.where}", {})
    mixer = _kimi_delta(own, own.count("heads"), own.count("head width"))
    mixed = {n for n in inner["kda_layers"] if isinstance(n, int)}
    layers = range(1, fields.count("layers") + 1)
    return _before_mlp(("mixer" if n in mixed else "attention" for n in layers), mixer)


def _kimi_delta(fields: Fields, heads: int, width: int) -> MixerSizes:
    convolution = fields.count("mixer convolution", 4)
    return MixerSizes("kimi-delta", heads, heads, width, width, convolution, 0, width)


def _jamba(fields: Fields) -> LayerKinds:
    layers = fields.count("layers")

    def places(name: str, period: int, offset: int) -> frozenset[int]:
        every = fields.count(f"{name} period", period)
        stated = f"{name} offset" in fields
        first = fields.count(f"{name} offset", 0) if stated else offset
        return frozenset(i for i in range(layers) if i % every == first)

    whole = places("attention", 8, 4)
    routed = places("expert", 2, 1) if fields.count("experts", 0) > 1 else frozenset()
    blocks = tuple(
        ("attention" if i in whole else "mixer", "routed" if i in routed else "dense")
        for i in range(layers)
    )
    return LayerKinds(blocks, _selective(fields) if len(whole) < layers else None)


def _granite(fields: Fields) -> LayerKinds:
    found = _by_type(fields, _state_space(fields), 0)
    dense = fields.count("experts", 0) < 1
    return replace(found, wide=fields.count("shared width", 0) if dense else 0)


def _bamba(fields: Fields) -> LayerKinds:
    whole = set(fields.whole_numbers("attention places"))
    kinds = ("attention" if i in whole else "mixer" for i in range(fields.count("layers")))
    return _before_mlp(kinds, _state_space(fields))


def _falcon(fields: Fields) -> LayerKinds:
    inner = fields.count("mixer inner", 0)
    return _before_mlp(["both"] * fields.count("layers"), _state_space(fields, inner=inner))


def _mamba(fields: Fields) -> LayerKinds:
    return LayerKinds((("mixer",),) * fields.count("layers"), _selective(fields))


def _mamba2(fields: Fields) -> LayerKinds:
    mixer = _state_space(fields, heads=fields.count("heads", 1))
    value = fields.count("head width", mixer.value_size)
    mixer = replace(mixer, value_size=value)
    return LayerKinds((("mixer",),) * fields.count("layers"), mixer)


MIXED: Mapping[str, Callable[[Fields], LayerKinds]] = MappingProxyType(
    {
        "nemotron_h": _nemotron,
        **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _qwen),
        **dict.fromkeys(("minimax", "minimax_text_01", "minimax_m1", "MiniMaxText01"), _minimax),
        "olmo_hybrid": _olmo,
        "kimi_linear": _kimi,
        "jamba": _jamba,
        "granitemoehybrid": _granite,
        "bamba": _bamba,
        "falcon_h1": _falcon,
        **dict.fromkeys(("mamba", "falcon_mamba"), _mamba),
        "mamba2": _mamba2,
    }
)
"""Readers by `model_type`."""
