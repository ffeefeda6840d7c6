"""Facts that the free text of a row states, such as `num-experts=8` or `MoE 128 experts top-8`, and
the layers of several kinds that they make.

A note is a list of parts between semicolons. What stands from `[check]` to the end of a part are
sanity figures derived from the measurement and is never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from costmodel.training.cells import needed
from costmodel.training.mixers import Mixer, MixerKind
from costmodel.training.records import LayoutError

__all__ = ["SETTINGS", "SIZES", "Notes", "kinds_of_layers", "read_notes"]

_LIMIT = 20_000
_SHOWN = 40
"""Characters of a value that a message repeats."""
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_PHRASES = {
    "num-experts": rf"moe {_NUMBER} (?:routed|experts)",
    "moe-router-topk": rf"top-{_NUMBER}",
    "moe-intermediate-size": rf"moe_ffn {_NUMBER}",
    "n-shared-experts": rf"\+ ?{_NUMBER} shared",
    "first-k-dense-replace": rf"first {_NUMBER} layers dense",
    "moe-capacity": rf"capacity[_-]factor'?[:= ]+{_NUMBER}",
    "zero-group": rf"fsdp sharding group {_NUMBER}|\bfsdp={_NUMBER} within a slice",
    "vocab": rf"\bvocab(?:ulary)? {_NUMBER}",
    "local-batch": rf"local batch {_NUMBER}",
    "release": r"(?:container|nemo ?container|nemo) ?([0-9]{2}\.[0-9]{2}(?:\.[0-9]+)?)",
}
SIZES = (
    "num-experts", "moe-router-topk", "moe-intermediate-size", "n-shared-experts",
    "first-k-dense-replace", "kv-channels", "vocab", "num-layer-list", "noop-layers",
    "moe-router-num-groups", "moe-router-group-topk", "n-group", "n_group", "topk-group",
    "topk_group", "mixer-layers", "mixer-heads", "mixer-key-heads", "mixer-key-size",
    "mixer-value-size", "mixer-conv", "mixer-chunk", "mixer-rank", "attention-layers",
    "moe-latent-size", "mtp-num-layers", "mtp_num_layers",
)  # fmt: skip
"""Keys without whose values a model is another one."""
SETTINGS = (
    "moe-capacity", "zero-group", "recompute-num-layers", "offset", "recompute", "select_recompute",
)  # fmt: skip
"""Keys of how a run is laid out, which may be left aside."""
_LISTS = {"num-layer-list", "noop-layers", "offset", "recompute", "select_recompute"}
"""Keys whose values are lists of whole numbers, or a word where there is no list."""
_WORDS = {"true", "false", "none", "null", "[]", ""}


@dataclass(frozen=True, slots=True)
class Notes:
    """What a note says: words that stand alone, and values by key, all in lower case."""

    words: frozenset[str] = frozenset()
    values: dict[str, str] = field(default_factory=dict)
    text: str = ""
    """The parts that may be read, joined."""

    def number(self, *keys: str) -> float | None:
        """The first of these keys that has a number."""
        for key in keys:
            found = re.match(r"-?[0-9]+(\.[0-9]+)?$", self.values.get(key, ""))
            if found:
                return float(found.group())
        return None

    def lists(self, key: str) -> tuple[tuple[int, ...], ...]:
        """The lists of whole numbers of `[[1, 2], [0, 1]]`, or the one of `5,6,6,5`; empty if it is
        neither, or if lists differ in length.
        """
        text = self.values.get(key, "")
        lists = [part.split(",") for part in re.findall(r"\[([^][]*)\]", text) or [text]]
        whole = all(re.fullmatch(r" *-?[0-9]+ *", part) for parts in lists for part in parts)
        if not whole or len({len(parts) for parts in lists}) > 1:
            return ()
        return tuple(tuple(map(int, parts)) for parts in lists)

    def numbers(self, key: str) -> tuple[int, ...]:
        """The whole numbers of a list such as `5,6,6,5`, lists of chunks added up to those of the
        stages that have them; empty if there are none.
        """
        return tuple(map(sum, zip(*self.lists(key), strict=True)))

    def strange(self, keys: Iterable[str]) -> Iterator[str]:
        """Values that are none of what these keys stand for, such as `num-experts=eight`."""
        for key in keys:
            text = self.values.get(key, "")
            if text in _WORDS:
                continue
            if key in _LISTS and not self.numbers(key):
                yield f"{key}={text[:_SHOWN]} is no list of whole numbers"
            elif key not in _LISTS and self.number(key) is None:
                yield f"{key}={text[:_SHOWN]} is no number"

    def has(self, pattern: str) -> bool:
        """Whether the text contains a pattern."""
        return re.search(pattern, self.text) is not None


def read_notes(text: str) -> Notes:
    """Read the notes of a row; anything not understood is kept as text alone."""
    parts = [part.partition("[check]")[0].strip() for part in text[:_LIMIT].lower().split(";")]
    parts = [part for part in parts if part]
    words: set[str] = set()
    values: dict[str, str] = {}
    for part in parts:
        _read_part(part, words, values)
    joined = "; ".join(parts)
    for key, pattern in _PHRASES.items():
        found = re.search(pattern, joined)
        if found:
            values.setdefault(key, next(filter(None, found.groups())))
    return Notes(frozenset(words), values, joined)


def _read_part(part: str, words: set[str], values: dict[str, str]) -> None:
    if part.startswith(("metric row", "recipe args")):
        values.update(dict(re.findall(r'"([a-z_]+)": "([^"]*)"', part)))
        return
    pairs = re.findall(r"([a-z][a-z0-9_-]*)=(\[\[.*?\]\]|\[[^\]]*\]|[^\s;]+)", part)
    values.update({key: value.rstrip(",") for key, value in pairs})
    if not pairs:
        words.add(part)


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
