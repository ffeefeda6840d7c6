"""The model of a recipe: by its name, by its sizes, or by the configuration that a user gives."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import data
from costmodel.training.records import TrainingModel
from importers.sizes import configuration, published_names
from ir.recipes.quantities import Value
from planner.requests.errors import UserError
from planner.requests.training_models import model_name, training_model

__all__ = ["model_of_recipe", "sizes_of_model"]

_SIZES = {
    "hidden": "hidden", "layers": "layers", "heads": "heads", "kv_heads": "kv_heads",
    "head_size": "head_size", "ffn": "ffn", "vocab": "vocab", "experts": "experts",
    "experts_per_token": "experts_per_token", "expert_ffn": "expert_ffn",
    "shared_ffn": "shared_ffn", "dense_layers": "dense_layers", "expert_groups": "expert_groups",
    "groups_per_token": "groups_per_token", "query_rank": "query_rank", "kv_rank": "kv_rank",
    "rotary_size": "rotary_size", "value_size": "value_size", "further": "further",
}  # fmt: skip
"""Quantities of recipes that are fields of a model."""
_NEEDED = ("hidden", "layers", "heads")
_USUAL_VOCABULARY = 50_304
"""Of GPT-2's tokenizer, padded: what Megatron's examples have that leave it to the tokenizer."""


def model_of_recipe(
    values: Mapping[str, Value], given: str = ""
) -> tuple[TrainingModel, tuple[str, ...]]:
    """The model that a recipe trains, and what was assumed for it.

    Args:
        values: quantities of the recipe.
        given: a config.json, or a bundled name, that stands in place of what the recipe says.

    Raises:
        UserError: the recipe says too little of it.
        ModelError: the configuration cannot be read.
    """
    if given:
        return training_model(configuration(given), model_name(given))
    named = _named(values)
    if named is not None:
        return named
    lacking = [name for name in _NEEDED if name not in values]
    if lacking:
        raise UserError(
            f"the recipe does not say the {', '.join(lacking)} of its model", "--model",
            "name its config.json or one of `planner sizes --list`",
        )  # fmt: skip
    return _sized(values, "model of the recipe")


def sizes_of_model(model: TrainingModel) -> dict[str, Value]:
    """The sizes of a model as quantities of a recipe."""
    numbers = {name: getattr(model, field) for name, field in _SIZES.items()}
    found: dict[str, Value] = {n: Fraction(v) for n, v in numbers.items() if v > 0}
    if model.kv_rank:
        found["plain_size"] = Fraction(model.head_size - model.rotary_size)
        found.pop("head_size", None)
    if model.experts and model.dense_layers:
        routed = model.layers - model.dense_layers
        found["moe_pattern"] = f"([0]*{model.dense_layers}+[1]*{routed})"
    found["gated"] = "yes" if model.gated else "no"
    found["biased"] = "no" if model.gated else "yes"
    found["untied"] = "no" if model.tied else "yes"
    found["latent"] = "yes" if model.kv_rank else "no"
    found["grouped"] = "yes" if model.kv_heads != model.heads else "no"
    return found


def _named(values: Mapping[str, Value]) -> tuple[TrainingModel, tuple[str, ...]] | None:
    """The published model that a recipe names."""
    words = [str(values[name]) for name in ("name", "family", "size", "base") if name in values]
    text = " ".join(words).lower()
    for entry in data.read_yaml("recipes", "models.yaml")["models"]:
        if text and re.search(entry["match"], text):
            if "sizes" in entry:
                sizes = {name: Fraction(size) for name, size in entry["sizes"].items()}
                untied = "no" if entry.get("tied") else "yes"
                return _sized({**sizes, "gated": "yes", "untied": untied}, entry["name"])
            return training_model(configuration(entry["is"]), entry["is"])
    plain = re.sub(r"[^a-z0-9.]+", "-", text)
    for name in sorted(published_names(), key=len, reverse=True):
        if text and re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", plain):
            return training_model(configuration(name), name)
    return None


def _sized(values: Mapping[str, Value], name: str) -> tuple[TrainingModel, tuple[str, ...]]:
    numbers = {k: int(v) for k, v in values.items() if isinstance(v, Fraction)}
    notes: list[str] = []
    sizes: dict[str, Any] = {f: numbers[n] for n, f in _SIZES.items() if n in numbers}
    sizes["layers"] -= numbers.get("idle", 0)
    sizes.setdefault("kv_heads", sizes["heads"])
    sizes.setdefault("head_size", sizes["hidden"] // sizes["heads"])
    if "vocab" not in sizes:
        notes.append(f"the vocabulary is taken as {_USUAL_VOCABULARY:,}, as nothing says its size")
    sizes.setdefault("vocab", _USUAL_VOCABULARY)
    gated = values.get("gated") == "yes"
    if "ffn" not in sizes:
        sizes["ffn"] = _feed_forward(values, sizes["hidden"], gated=gated)
    if sizes.get("experts"):
        sizes.setdefault("expert_ffn", sizes["ffn"])
    if values.get("latent") == "yes" or numbers.get("kv_rank"):
        sizes["head_size"] = numbers.get("plain_size", 128) + sizes.get("rotary_size", 64)
        sizes["kv_heads"] = sizes["heads"]
    model = TrainingModel(name=name, gated=gated, tied=values.get("untied") != "yes", **sizes)
    scale = numbers.get("scale", 1)
    return (_scaled(model, scale) if scale > 1 else model), tuple(notes)


def _feed_forward(values: Mapping[str, Value], hidden: int, *, gated: bool) -> int:
    """The inner width where a recipe does not say it: by Llama's rule, or 4 h."""
    both = values.get("ffn_both")
    if isinstance(both, Fraction):
        return int(both) // (2 if gated else 1)
    factor, multiple = values.get("ffn_factor"), values.get("ffn_multiple")
    if isinstance(factor, Fraction) and isinstance(multiple, Fraction):
        wanted = int(factor * (2 * 4 * hidden // 3))
        return math.ceil(wanted / multiple) * int(multiple)
    return 4 * hidden


def _scaled(model: TrainingModel, scale: int) -> TrainingModel:
    """A model with so many times the parameters, as MaxText's `global_parameter_scale` makes it.

    Source: MaxText, `get_individual_scales` in `configs/pyconfig.py`.
    """
    whole, rest = divmod(scale.bit_length() - 1, 3)
    heads, wide = whole + (rest > 0), whole + (rest > 1)
    return replace(
        model,
        hidden=model.hidden << wide,
        heads=model.heads << heads,
        kv_heads=model.kv_heads << heads,
        ffn=model.ffn << heads,
        layers=model.layers << whole,
    )
