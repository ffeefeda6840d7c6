"""From the fields of a config.json to the sizes of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType

from importers.errors import ModelError
from importers.hf_blocks import (
    activation_of,
    attention_of,
    experts_of,
    feed_forward_of,
)
from importers.hf_families import DECODER, FAMILIES, Family
from importers.hf_fields import Fields
from importers.hf_mixed import MIXED_FAMILIES, mixed_network, part_notes
from importers.hf_mixers import MIXED, completed, layer_kinds
from importers.hf_plain import plain_decoder
from importers.transformers import Entry, Head, Network, Stack

KNOWN: Mapping[str, Family] = MappingProxyType({**FAMILIES, **MIXED_FAMILIES})
"""Families whose networks can be built, by `model_type`."""
_DTYPES = ("bfloat16", "float16", "float32")
_COMMON = ("hidden_size", "num_hidden_layers")
_OTHER_KINDS = (
    "is_encoder_decoder", "encoder_layers", "decoder_layers", "num_decoder_layers", "image_size",
    "patch_size", "num_mel_bins", "type_vocab_size", "relative_attention_num_buckets",
)  # fmt: skip
"""Fields of networks that are no decoders of text."""
_OTHER_LAYERS = (
    "mamba", "ssm_", "linear_", "rwkv", "conv_", "hybrid_override", "attn_type_list",
    "attn_layer_", "layers_block_type",
)  # fmt: skip
"""How fields of layers begin that are no attention."""


def network_from(config: Mapping[str, object], name: str, where: str) -> Network:
    """The network that a configuration describes.

    Raises:
        ModelError: a size is missing or cannot be; or it is no transformer that is known.
    """
    notes: list[str] = []
    config = text_part(config, notes)
    config = {**config, **usual_widths(config)}
    kinds = layer_kinds(config, where)
    family = _family(config, where, notes)
    if kinds is not None:
        config = completed(Fields(config, where, {}), kinds)
    fields = Fields(config, where, family.defaults)
    _note_left_out(fields, notes)
    dtype = _element_type(fields, notes)
    if kinds is not None:
        network = mixed_network(fields, family, kinds)
        notes += part_notes(kinds)
    else:
        network = _FORMS[family.form](fields, family)
    return replace(network, name=name, dtype=dtype, notes=tuple(notes))


def text_part(config: Mapping[str, object], notes: list[str]) -> Mapping[str, object]:
    """The language model of a configuration with several parts."""
    inner = config.get("text_config")
    if not isinstance(inner, dict) or any(n in config for n in _COMMON):
        return config
    parts = sorted(k for k, v in config.items() if k.endswith("_config") and isinstance(v, dict))
    others = [k for k in parts if k not in {"text_config", "quantization_config"}]
    if others:
        notes.append(f"only text_config is planned, without {', '.join(others)}")
    dtype = {k: config[k] for k in ("torch_dtype", "dtype") if k in config}
    return {**dtype, **inner}


def usual_widths(config: Mapping[str, object]) -> dict[str, object]:
    """Widths of Llama 4 by the names that other models have for them: `intermediate_size` is that
    of an expert, of which one is shared.
    """
    dense, expert = config.get("intermediate_size_mlp"), config.get("intermediate_size")
    if config.get("model_type") != "llama4_text" or dense is None:
        return {}
    shared = config.get("num_shared_experts", 1)
    return {
        "intermediate_size": dense,
        "moe_intermediate_size": expert,
        "num_shared_experts": shared,
    }


def _family(config: Mapping[str, object], where: str, notes: list[str]) -> Family:
    kind = config.get("model_type")
    if isinstance(kind, str) and kind in KNOWN:
        return KNOWN[kind]
    shown = (
        f"architecture {kind!r:.60}" if kind is not None else "architecture without a model_type"
    )
    if isinstance(kind, str) and kind in MIXED:
        raise ModelError(
            f"an {shown} has layers whose operators this importer does not write",
            where,
            "price its layouts: `planner layouts`, `planner simulate --layout`",
        )
    strange = strangeness(config, Fields(config, where, {}))
    if strange:
        close = get_close_matches(str(kind)[:60], KNOWN, n=1, cutoff=0.75)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ModelError(
            f"an {shown} is not known, and {strange}",
            where,
            f"{hint}known: {', '.join(KNOWN)}; or export the model to ONNX",
        )
    plain = plain_decoder(config, where)
    notes.append(
        f"an {shown} is not known: it is taken for a decoder with rotary positions and a "
        f"{'gated' if plain.gated else 'plain'} feed-forward block, by the names of its sizes"
    )
    if plain.gated:
        return DECODER
    return replace(DECODER, gated=False, activation="gelu", tied=plain.tied)


def strangeness(config: Mapping[str, object], fields: Fields) -> str:
    """Why a configuration cannot be taken for a decoder by its common field names, if so."""
    missing = [m for m in ("hidden", "layers", "heads", "vocabulary") if m not in fields]
    if missing:
        return f"it gives no size of {' and '.join(missing)}"
    other = [k for k in _OTHER_KINDS if config.get(k)]
    other += sorted(k for k in config if k.startswith(_OTHER_LAYERS))
    return f"{other[0][:60]} says that it is no plain decoder" if other else ""


def _note_left_out(fields: Fields, notes: list[str]) -> None:
    config = fields.config
    if fields.count("MTP layers", 0) and config.get("use_mtp") is not False:
        name = fields.field("MTP layers")
        notes.append(f"the multi-token prediction layers ({name}) are left out")
    if config.get("quantization_config"):
        notes.append("quantization_config is not followed: all weights have the same element type")
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        notes.append("sliding_window is not followed: every row sees all rows before it")


def _element_type(fields: Fields, notes: list[str]) -> str:
    if "element type" not in fields:
        notes.append("float32, as the configuration names no element type")
        return "float32"
    dtype = fields.text("element type", "float32").removeprefix("torch.")
    if dtype not in _DTYPES:
        raise fields.wrong("element type", f"is none of {', '.join(_DTYPES)}")
    return dtype


def _stack(fields: Fields, family: Family, entry: Entry) -> Stack:
    """The only stack of a network, or its encoder's."""
    return Stack(
        entry=entry,
        layers=fields.count("layers"),
        norm=family.norm,
        norms=family.norms,
        attention=attention_of(fields, family),
        feed_forward=feed_forward_of(fields, family),
        names=family.names,
        causal=False,
    )


def _decoder(fields: Fields, family: Family) -> Network:
    vocabulary = fields.count("vocabulary")
    positions = fields.count("positions", 0 if family.rotary else None)
    entry = Entry(
        vocabulary=vocabulary,
        table=0 if family.rotary else positions,
        scaled=family.entry_scaled,
    )
    stack = replace(_stack(fields, family, entry), causal=True)
    stack = replace(stack, experts=experts_of(fields, family, stack.layers))
    head = Head(
        "vocabulary",
        vocabulary,
        tied=fields.flag("tied", default=family.tied),
        soft_cap=fields.number("head cap", 0.0) > 0,
    )
    return Network(fields.count("hidden"), (stack,), head, positions)


def _encoder(fields: Fields, family: Family) -> Network:
    """An encoder of text, with the head that it was trained with if it is named for that."""
    vocabulary, positions = fields.count("vocabulary"), fields.count("positions")
    entry = Entry(
        vocabulary=vocabulary,
        table=positions,
        types=fields.count("types", 0),
        norm=True,
        padded=True,
    )
    stack = replace(_stack(fields, family, entry), final_norm=False)
    head = Head("none")
    if _is_named_for(fields, "MaskedLM", "PreTraining"):
        transform = activation_of(fields, family)
        head = Head("vocabulary", vocabulary, tied=True, bias=True, transform=transform)
    return Network(fields.count("hidden"), (stack,), head, positions)


def _is_named_for(fields: Fields, *tasks: str) -> bool:
    """Whether the configuration is of a class such as `BertForMaskedLM`."""
    classes = fields.config.get("architectures")
    if not isinstance(classes, list) or not classes or not isinstance(classes[0], str):
        return False
    return classes[0].endswith(tuple(f"For{task}" for task in tasks))


def _image(fields: Fields, family: Family) -> Network:
    """An encoder of the patches of an image, with a classifier."""
    image, patch = fields.count("image"), fields.count("patch")
    if image % patch:
        raise fields.wrong("image", f"does not consist of patches of {patch}")
    entry = Entry(
        kind="patches",
        input="pixel_values",
        rows=(image // patch) ** 2 + 1,
        channels=fields.count("channels"),
        patch=patch,
        image=image,
    )
    labels = fields.config.get("id2label")
    known = len(labels) if isinstance(labels, dict) and labels else None
    head = Head("classes", known or fields.count("classes"))
    return Network(fields.count("hidden"), (_stack(fields, family, entry),), head)


def _text_to_text(fields: Fields, family: Family) -> Network:
    """T5: one table of tokens for both stacks, biases by distance."""
    vocabulary = fields.count("vocabulary")
    stack = _stack(fields, family, Entry(vocabulary=vocabulary))
    gated = {"up": "wi_1"} if stack.feed_forward.gated else {}
    encoder = replace(stack, names={**family.encoder, **gated})
    decoder = replace(
        stack,
        entry=Entry(input="decoder_input_ids", vocabulary=vocabulary),
        layers=fields.count("decoder layers", stack.layers),
        names={**family.names, **gated},
        causal=True,
    )
    tied = fields.flag("tied", default=family.tied)
    head = Head("vocabulary", vocabulary, tied=tied, scaled=tied)
    positions = fields.count("positions", 0)
    return Network(fields.count("hidden"), (encoder, decoder), head, positions)


def _speech_to_text(fields: Fields, family: Family) -> Network:
    """Whisper: frames of a spectrum into the encoder, tokens into the decoder."""
    vocabulary, targets = fields.count("vocabulary"), fields.count("target positions")
    frames, bins = fields.count("frames"), fields.count("bins")
    entry = Entry(kind="frames", input="input_features", rows=frames, channels=bins)
    encoder = replace(_stack(fields, family, entry), names=family.encoder)
    decoder = replace(
        encoder,
        entry=Entry(input="decoder_input_ids", vocabulary=vocabulary, table=targets),
        layers=fields.count("decoder layers", encoder.layers),
        attention=attention_of(fields, family, "decoder heads"),
        feed_forward=feed_forward_of(fields, family, "decoder feed-forward"),
        names=family.names,
        causal=True,
    )
    head = Head("vocabulary", vocabulary, tied=True)
    return Network(fields.count("hidden"), (encoder, decoder), head, targets)


_FORMS: Mapping[str, Callable[[Fields, Family], Network]] = MappingProxyType(
    {
        "decoder": _decoder,
        "encoder": _encoder,
        "image": _image,
        "text to text": _text_to_text,
        "speech to text": _speech_to_text,
    }
)
