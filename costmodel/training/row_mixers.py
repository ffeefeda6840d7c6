"""Layers of several kinds as the notes of a row state them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.training.cells import needed
from costmodel.training.mixers import Mixer, MixerKind
from costmodel.training.records import LayoutError

if TYPE_CHECKING:
    from costmodel.training.notes import Notes

__all__ = ["kinds_of_layers"]

_LETTERS = {"m": "mixer", "*": "attention", "-": "dense", "e": "routed"}
"""Of `hybrid_override_pattern` in a config.json, in lower case: every layer is one block."""

_MOST_SHOWN = 40


def kinds_of_layers(notes: Notes, layers: int) -> dict[str, Any]:
    """Fields of a model whose layers are of several kinds; none for a plain transformer.

    Args:
        notes: of the row.
        layers: of the model.

    Raises:
        LayoutError: they contradict one another, or lack a size.
    """
    latent = needed("moe-latent-size", notes.number("moe-latent-size"))
    found: dict[str, Any] = {"expert_hidden": latent} if latent else {}
    if "query-gate" in notes.words:
        found["query_gate"] = True
    pattern, kind = notes.values.get("layer-pattern", ""), notes.values.get("mixer", "")
    if not pattern and not kind:
        return found
    if pattern:
        found |= _of_pattern(pattern, layers)
        mixed = pattern.count("m")
    else:
        mixed = _stated(notes, "mixer-layers")
        whole = needed("attention-layers", notes.number("attention-layers"), least=0)
        found["attention_layers"] = layers - mixed if whole is None else whole
    if mixed > layers or not 0 <= found["attention_layers"] <= layers:
        raise LayoutError(f"{mixed} layers with a mixer in 'notes', of {layers}")
    return found | ({"mixer": _mixer(notes, kind, mixed)} if mixed else {})


def _of_pattern(pattern: str, layers: int) -> dict[str, int]:
    strange = sorted(set(pattern) - set(_LETTERS))
    if strange or len(pattern) != layers:
        what = f"has {strange[0]!r}" if strange else f"is of {len(pattern)} layers, not {layers}"
        shown = pattern[:_MOST_SHOWN]
        raise LayoutError(f"layer-pattern={shown} in 'notes' {what}; letters: M, *, - and E")
    routed = pattern.count("e")
    return {
        "attention_layers": pattern.count("*"),
        "bare_layers": pattern.count("*") + pattern.count("m"),
        # Without experts in the model the number says nothing.
        "dense_layers": pattern.count("-") if routed else 0,
    }


def _mixer(notes: Notes, kind: str, layers: int) -> Mixer:
    if kind not in list(MixerKind):
        known = ", ".join(MixerKind)
        raise LayoutError(f"mixer in 'notes' is {kind[:_MOST_SHOWN]!r}; known: {known}")
    heads = _stated(notes, "mixer-heads")
    convolution, chunk, rank = (
        needed(key, notes.number(key), least=0)
        for key in ("mixer-conv", "mixer-chunk", "mixer-rank")
    )
    key_heads = _stated(notes, "mixer-key-heads", 1 if kind == MixerKind.MAMBA else heads)
    if heads % key_heads:
        raise LayoutError(f"mixer-key-heads {key_heads} does not divide {heads} heads")
    return Mixer(
        kind=MixerKind(kind),
        layers=layers,
        heads=heads,
        key_heads=key_heads,
        key_size=_stated(notes, "mixer-key-size"),
        value_size=_stated(notes, "mixer-value-size", 1 if kind == MixerKind.MAMBA else None),
        convolution=4 if convolution is None else convolution,
        chunk=chunk or 0,
        rank=rank or 0,
    )


def _stated(notes: Notes, key: str, usual: int | None = None) -> int:
    value = needed(key, notes.number(key))
    if value is None and usual is None:
        raise LayoutError(f"{key} is not in 'notes', which state a mixer")
    return value or usual or 1
