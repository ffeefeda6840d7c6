"""The blocks of a layer from the fields of a config.json."""

from __future__ import annotations

from importers.hf_families import ALL, Family
from importers.hf_fields import Fields
from importers.transformers import Attention, Experts, FeedForward, Latent
from importers.transformers.feed_forward import ACTIVATIONS


def attention_of(fields: Fields, family: Family, heads_named: str = "heads") -> Attention:
    """Heads and projections of attention."""
    heads = fields.count(heads_named, fields.count("heads"))
    biases = family.biases
    if fields.flag("attention bias", default=False):
        biases |= family.optional_biases
    elif "attention bias" in fields:
        biases -= ALL - {"output"}
    if "key rank" in fields:
        return _latent(fields, family, heads, biases)
    width = _head_width(fields, heads)
    key_heads = fields.count("key heads", heads)
    if heads % key_heads:
        raise fields.wrong("key heads", f"does not divide the {heads} heads")
    if family.rotary and width % 2:
        raise fields.wrong("head width", f"makes heads of {width}, which rotary positions halve")
    return Attention(
        heads=heads,
        key_heads=key_heads,
        width=width,
        value_width=width,
        biases=biases,
        rotary=family.rotary,
        relative_buckets=0 if family.rotary else fields.count("buckets", 0),
        query_norm=fields.flag("query norm", default=family.query_norm),
        fused=family.fused,
        scaled=family.scaled,
        soft_cap=fields.number("attention cap", 0.0),
    )


def _head_width(fields: Fields, heads: int) -> int:
    hidden = fields.count("hidden")
    if "head width" not in fields and hidden % heads:
        raise fields.wrong("heads", f"does not divide the hidden size {hidden}")
    return fields.count("head width", hidden // heads)


def _latent(fields: Fields, family: Family, heads: int, biases: frozenset[str]) -> Attention:
    rotary = fields.count("rotary width")
    if rotary % 2:
        raise fields.wrong("rotary width", "is odd, and rotary positions halve it")
    return Attention(
        heads=heads,
        key_heads=heads,
        width=fields.count("plain width") + rotary,
        value_width=fields.count("value width"),
        biases=biases,
        scaled=family.scaled,
        latent=Latent(fields.count("query rank", 0), fields.count("key rank"), rotary),
    )


def activation_of(fields: Fields, family: Family) -> str:
    """Name of the activation.

    Raises:
        ModelError: it is not known.
    """
    name = fields.text("activation", family.activation)
    if name not in ACTIVATIONS:
        raise fields.wrong("activation", f"is none of {', '.join(ACTIVATIONS)}")
    return name


def feed_forward_of(
    fields: Fields, family: Family, width_named: str = "feed-forward"
) -> FeedForward:
    """The block behind attention; without a width it is four times as wide as the rows."""
    usual = fields.count("feed-forward", 4 * fields.count("hidden") if not family.gated else None)
    gated, activation = family.gated, activation_of(fields, family)
    if "projection" in fields:
        combined = fields.text("projection", "")
        gated = combined.startswith("gated-")
        activation = "gelu_new" if combined == "gated-gelu" else combined.removeprefix("gated-")
        if activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise fields.wrong("projection", f"is none of {known}, with or without gated-")
    return FeedForward(
        width=fields.count(width_named, usual),
        activation=activation,
        gated=gated,
        bias=fields.flag("feed-forward bias", default=family.feed_forward_bias),
        flat=family.fused,
    )


def experts_of(fields: Fields, family: Family, layers: int) -> Experts | None:
    """The mixture of experts, if there is one."""
    count = fields.count("experts", 0)
    if count < 2:
        return None
    per_token = fields.count("experts per token")
    if per_token > count:
        raise fields.wrong("experts per token", f"is more than the {count} experts")
    router = family.router
    width = fields.count("expert width", fields.count("feed-forward", 0))
    shared = fields.count("shared width", fields.count("shared experts", 0) * width)
    groups = _groups(fields, family, count)
    return Experts(
        count=count,
        per_token=per_token,
        width=width,
        activation=activation_of(fields, family),
        scores=router.scores,
        normalised=fields.flag("normalised", default=router.normalised),
        scaled=fields.number("expert factor", 1.0) != 1.0 or router.correction,
        groups=groups,
        best_groups=fields.count("best groups", groups) if groups else 0,
        correction=router.correction,
        single=router.single,
        shared_width=shared,
        shared_gate=router.shared_gate and shared > 0,
        layers=_expert_layers(fields, layers),
    )


def _groups(fields: Fields, family: Family, count: int) -> int:
    """Groups of experts, 0 where the choice is among all."""
    limited = fields.config.get("topk_method") == "group_limited_greedy"
    if not family.router.grouped and not limited:
        return 0
    groups = fields.count("groups", 1)
    if count % groups:
        raise fields.wrong("groups", f"does not divide the {count} experts")
    best = fields.count("best groups", groups)
    if best > groups:
        raise fields.wrong("best groups", f"is more than the {groups} groups")
    if best * (count // groups) < fields.count("experts per token"):
        raise fields.wrong("best groups", "leaves fewer experts than a token takes")
    return groups


def _expert_layers(fields: Fields, layers: int) -> frozenset[int] | None:
    """Layers with experts; the others have one feed-forward block."""
    interval = fields.field("expert interval")
    if interval is not None and isinstance(fields.config[interval], list):
        flags = fields.whole_numbers("expert interval")
        if len(flags) != layers:
            raise fields.wrong("expert interval", f"has not one number for each of {layers} layers")
        return frozenset(i for i, flag in enumerate(flags) if flag)
    step = fields.count("expert interval", 1)
    first = fields.count("first expert layer", 0)
    # Qwen counts layers from one here, the others from zero.
    shift = 1 if interval == "decoder_sparse_step" else 0
    dense = fields.whole_numbers("dense layers")
    found = (i for i in range(first, layers) if (i + shift) % step == 0 and i not in dense)
    return frozenset(found)
