"""The sizes of a transformer that a layout needs, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.training.records import TrainingModel
from importers.hf_families import FAMILIES
from importers.hf_fields import Fields
from planner.asking.errors import UserError


def training_model(config: Mapping[str, object], name: str) -> TrainingModel:
    """A decoder-only or encoder-only transformer.

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
    fields = Fields(config, name, family.defaults if family is not None else {})
    heads, hidden = fields.count("heads"), fields.count("hidden")
    rotary = fields.count("rotary width", 0)
    width = fields.count("plain width", 0) + rotary
    head = width or fields.count("head width", max(hidden // heads, 1))
    return TrainingModel(
        name=name,
        hidden=hidden,
        layers=fields.count("layers"),
        heads=heads,
        kv_heads=fields.count("key heads", heads),
        head_size=head,
        ffn=fields.count("feed-forward", 4 * hidden),
        vocab=fields.count("vocabulary"),
        gated=family.gated if family is not None else True,
        tied=fields.flag("tied", default=family.tied if family is not None else False),
        value_size=fields.count("value width", 0),
        query_rank=fields.count("query rank", 0),
        kv_rank=fields.count("key rank", 0),
        rotary_size=rotary,
        causal=family is None or family.form == "decoder",
        **_experts(fields),
    )


def _experts(fields: Fields) -> dict[str, int]:
    """Sizes of the routed layers; nothing for a dense model."""
    experts = fields.count("experts", 0)
    if experts <= 1:
        return {}
    width = fields.count("expert width", fields.count("feed-forward"))
    shared = fields.count("shared width", fields.count("shared experts", 0) * width)
    return {
        "experts": experts,
        "experts_per_token": fields.count("experts per token"),
        "expert_ffn": width,
        "shared_ffn": shared,
        "dense_layers": fields.count("first expert layer", 0),
    }
