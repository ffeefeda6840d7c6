"""The sizes of a network that a layout needs, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.training.mixers import Mixer, MixerKind
from costmodel.training.records import TrainingModel
from importers.hf_families import FAMILIES
from importers.hf_mixers import LayerKinds
from importers.hf_sized import Sized, sized
from planner.requests.errors import UserError


def training_model(
    config: Mapping[str, object], name: str
) -> tuple[TrainingModel, tuple[str, ...]]:
    """A decoder-only or encoder-only network, and what was assumed for it.

    Args:
        config: fields of its config.json.
        name: for messages.

    Raises:
        UserError: the network is of another form.
        ModelError: a size is missing or cannot be.
    """
    family = FAMILIES.get(str(config.get("model_type")))
    if family is not None and family.form not in {"decoder", "encoder"}:
        raise UserError(
            f"{name} is a network from {family.form}, which layouts do not describe",
            "MODEL",
            "name a model of text, or plan it: planner search",
        )
    found = sized(config, name)
    return _model(found, name), (*found.notes, *_remarks(found.kinds))


def model_name(subject: str) -> str:
    """A published name, the name of a file, or of the folder of a config.json."""
    path = Path(subject)
    if path.suffix != ".json":
        return subject
    folder = path.resolve().parent.name
    return folder if path.stem == "config" and folder else path.stem


def _remarks(kinds: LayerKinds | None) -> tuple[str, ...]:
    if kinds is None or kinds.mixer is None:
        return ()
    remark = (
        f"{kinds.mixed} of {kinds.layers} layers mix tokens by {kinds.mixer.kind}, which is priced "
        "by its products and bytes: no constant is fitted to runs of such layers"
    )
    return (remark,)


def _model(found: Sized, name: str) -> TrainingModel:
    fields = found.fields
    heads, hidden = fields.count("heads"), fields.count("hidden")
    rotary = fields.count("rotary width", 0)
    width = fields.count("plain width", 0) + rotary
    return TrainingModel(
        name=name,
        hidden=hidden,
        layers=fields.count("layers"),
        heads=heads,
        kv_heads=found.key_heads,
        head_size=width or fields.count("head width", hidden // heads),
        ffn=found.feed_forward,
        vocab=fields.count("vocabulary"),
        gated=found.gated,
        tied=found.tied,
        experts=found.experts,
        experts_per_token=fields.count("experts per token") if found.experts else 0,
        expert_groups=found.expert_groups,
        groups_per_token=found.best_groups,
        expert_ffn=found.expert_width,
        shared_ffn=found.shared_width,
        dense_layers=found.dense_layers,
        value_size=fields.count("value width", 0),
        query_rank=fields.count("query rank", 0),
        kv_rank=fields.count("key rank", 0),
        rotary_size=rotary,
        window=found.window,
        global_every=found.global_every,
        further=found.further,
        activation_kernels=found.activation_kernels,
        expert_biases=found.expert_biases,
        causal=found.causal,
        **({} if found.kinds is None else _kinds(found.kinds)),
    )


def _kinds(kinds: LayerKinds) -> dict[str, Any]:
    """Fields of a model whose layers are of several kinds."""
    sizes = kinds.mixer
    mixer = sizes and Mixer(
        kind=MixerKind(sizes.kind),
        layers=kinds.mixed,
        heads=sizes.heads,
        key_heads=sizes.key_heads,
        key_size=sizes.key_size,
        value_size=sizes.value_size,
        convolution=sizes.convolution,
        chunk=sizes.chunk,
        rank=sizes.rank,
    )
    return {
        "attention_layers": kinds.attention,
        "mixer": mixer,
        "bare_layers": kinds.bare,
        "query_gate": kinds.query_gate,
        "expert_hidden": kinds.expert_hidden,
    }
