"""Software stacks: which one a row names, and what it and its recipes do unless the row says so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import data
from costmodel.training.cells import cell, needed
from costmodel.training.machines import machine_of
from costmodel.training.records import Attention

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from costmodel.training.notes import Notes
    from costmodel.training.records import TrainingLayout

__all__ = [
    "counts_whole_attention",
    "names_stack",
    "run_flags",
    "software_flags",
    "stack_of",
    "stated_expert_parts",
    "trained_mtp_layers",
    "usual_attention",
]  # fmt: skip

_EXCHANGE = (
    r"overlap[-_]moe[-_]expert[-_]parallel[-_]comm|moe[-_]a2a[-_]overlap|moe[-_]fb[-_]overlap"
)
"""The exchange between experts beside computation: names of Megatron-Core, of Megatron-Bridge's
recipes and of MindSpeed."""
_OFF = r" ?[=:] ?(?:false|off|no|0)\b"

_FLAGS = {
    "fused-tp": r"\bmc2\b|-mc2\b|asynctp|async-tp",
    "overlap": r"overlap-grad-reduce|overlap dp",
    "swap-attention": r"swap-attention",
    "swap-optimizer": r"swap-optimizer",
    "reuse-master": r"reuse-fp32-param",
    "recompute-activation": r"recompute-activation-function|use-fused-swiglu",
    "recompute-heads": r"mla_up_proj|mla up-?projections?",
    "fixed-experts": r"capacity[_-]factor|\bdropped\b",
    "frozen": r"pet/lora|\blora\b|p-?tuning",
    "ep-overlap": rf"(?:{_EXCHANGE})(?!{_OFF})",
}

_EXPERT_PARTS = r"(?:expert-tensor-parallel-size|etp)=?([0-9]{1,9})(?![0-9])"

_UNTIL = {"old-release": "current", "whole-square": "causal_since"}
_SINCE = {
    "fused-loss": "fused_loss",
    "fused-experts": "fused_experts",
    "ep-overlap": "recipes_since",
    "graphs": "recipes_since",
    "sends-once": "recipes_since",
}
"""Flags that hold before, or from, the release that a profile has under a key."""

_OFFLOADS = r"remat[^;]*offload"
"""What notes say where kept tensors go to the memory of the host."""

_WITHOUT_FURTHER = r"(?<![a-z0-9])(?:w/ ?o|without|no)[ _-]?mtp"
"""What the name of a model says where no multi-token prediction layers are trained."""

_NAMED = {
    "fixed-experts": r"token.?drop",
    "frozen": r"(?<![a-z])(?:q?lora|p-?tuning)(?![a-z])",
}
"""What the name of a model says where tokens beyond the capacity of an expert are dropped, or where
only few parameters, beside its own, are trained.
"""


def names_stack(row: Mapping[str, str], notes: Notes) -> bool:
    """Whether source or notes name a software stack that is known, not one that is only like it."""
    text = _software(row, notes)
    stacks = data.calibration("training_profiles")["profiles"]
    return any(text == entry["name"] or re.search(entry["match"], text) for entry in stacks)


def _stated(row: Mapping[str, str], notes: Notes) -> str:
    return f"{cell(row, 'software')} {row.get('source', '')} {notes.text}".lower()


def _software(row: Mapping[str, str], notes: Notes) -> str:
    """What names the software: column `software`, else source and notes."""
    return cell(row, "software").lower() or _stated(row, notes)


def stack_of(row: Mapping[str, str], notes: Notes) -> dict[str, Any]:
    """The software stack that source or notes name, else the usual one of the hardware."""
    stacks = data.calibration("training_profiles")
    named: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in stacks["profiles"]}
    text = _software(row, notes)
    hardware = machine_of(row.get("hardware", ""))
    if text in named:
        return named[text]
    for entry in stacks["profiles"]:
        if re.search(f"{entry['match']}|{entry.get('like', entry['match'])}", text):
            modern = "modern" in entry and hardware.generation in stacks["modern_generations"]
            found: dict[str, Any] = named[entry["modern"]] if modern else entry
            return found
    unnamed = stacks["unnamed"]
    kind = next((key for key in unnamed if hardware.generation.startswith(key)), "other")
    usual: dict[str, Any] = named[unnamed[kind]]
    return usual


def row_attention(row: Mapping[str, str], notes: Notes, stack: dict[str, Any]) -> Attention:
    """How the core of attention runs: as a row states it, else as its software did."""
    if notes.values.get("use_flash_attention") == "false":
        return Attention.UNFUSED
    if notes.values.get("use_flash_attention") == "true" or notes.has("use-flash-attn"):
        return Attention.FLASH
    unfused = "unfused" in stack and re.search(stack["unfused"], _software(row, notes))
    return Attention.UNFUSED if unfused else Attention(stack["attention"])


def stated_expert_parts(row: Mapping[str, str], notes: Notes) -> int:
    """Tensor parallel ranks that split the width of an expert, as a row says; 0 if it does not."""
    found = re.search(_EXPERT_PARTS, _stated(row, notes))
    return int(found.group(1)) if found else 0


def counts_whole_attention(row: Mapping[str, str], notes: Notes) -> bool:
    """Whether the rates that the row's software prints are known to count attention as not causal:
    up to a release, which a row that names none is taken to be of.
    """
    until, release = stack_of(row, notes).get("counts_whole_until", ""), _release(row, notes)
    return bool(until) and (release is None or _before(release, until))


def run_flags(
    row: Mapping[str, str], notes: Notes, stack: dict[str, Any], layout: TrainingLayout
) -> frozenset[str]:
    """What a run does beside its layout: see `TrainingRun.flags`."""
    found = {name for name, pattern in _FLAGS.items() if notes.has(pattern)}
    model = row.get("model", "").lower()
    found |= {name for name, pattern in _NAMED.items() if re.search(pattern, model)}
    policy = cell(row, "recompute").lower()
    if "keeps" in stack and re.search(stack["keeps"], policy):
        found.add("keeps-attention")
    if "compiled" in stack and not notes.has(stack["compiled"]):
        found.add("uncompiled")
    if "fuses" in stack and not notes.has(stack["fuses"]):
        found.add("split-activation")
    if _offloads(row, notes, stack):
        found.add("offloads")
    release = _release(row, notes)
    found |= {name for name, key in _UNTIL.items() if _before(release, stack.get(key, ""))}
    hardware = machine_of(row.get("hardware", "")).name
    does = software_flags(stack["name"], hardware, model, layout)
    does = does | _recomputed(row, notes, stack["name"], layout)
    does_not = {name for name, key in _SINCE.items() if _before(release, stack.get(key, ""))}
    if "uncompiled" in found:
        does_not.add("fused-loss")
    if notes.has(rf"(?:{_EXCHANGE}){_OFF}"):
        does_not.add("ep-overlap")
    return (does - does_not) | found


def _recomputed(
    row: Mapping[str, str], notes: Notes, profile: str, layout: TrainingLayout
) -> set[str]:
    """What the published recipe computes again of single modules, where a row does not say."""
    if row.get("recompute", "").strip():
        return set()
    model, text = row.get("model", "").lower(), _stated(row, notes)
    hardware = machine_of(row.get("hardware", "")).name
    return {
        flag
        for entry in _entries("recomputed", profile, named=text, model=model, hardware=hardware)
        if layout.micro_batch >= entry.get("micro_batch", 1)
        for flag in entry["flags"]
    }


def _entries(kind: str, profile: str, **texts: str) -> Iterator[dict[str, Any]]:
    """What is known of a profile for all its runs whose texts these patterns are in."""
    for entry in data.calibration("training_profiles")[kind]:
        if entry["profile"] == profile and all(re.search(entry[k], t) for k, t in texts.items()):
            yield entry


def trained_mtp_layers(row: Mapping[str, str], notes: Notes, profile: str) -> int:
    """How many tokens behind the next one a run learns to predict, each with a layer of its own
    behind the others: what notes or the model's name say, else the published recipe.
    """
    number = notes.number("mtp-num-layers", "mtp_num_layers")
    stated = needed("mtp-num-layers", number, least=0)
    if stated is not None:
        return stated
    model, text = row.get("model", "").lower(), _stated(row, notes)
    if re.search(_WITHOUT_FURTHER, model):
        return 0
    recipes = _entries("further", profile, model=model, named=text)
    return next((int(entry["tokens"]) for entry in recipes), 0)


def _offloads(row: Mapping[str, str], notes: Notes, stack: dict[str, Any]) -> bool:
    """Whether what recomputation begins at waits on the host."""
    policy = cell(row, "recompute").lower()
    return notes.has(_OFFLOADS) or (
        "offloads" in stack and re.search(stack["offloads"], policy) is not None
    )


def software_flags(
    profile: str, machine_name: str, model: str, layout: TrainingLayout
) -> frozenset[str]:
    """What a profile in its current release does of itself, on a machine and for a model."""
    stacks = data.calibration("training_profiles")["profiles"]
    stack = next(entry for entry in stacks if entry["name"] == profile)
    does = {
        "early-stop": stack["early_stop"],
        "gather-once": stack["gather_once"] and layout.pp > 1,
        "scatter-stages": stack.get("scatter"),
        "casts": stack.get("casts"),
        "apart-products": stack.get("apart"),
        "alone": stack.get("alone"),
        "whole-square": stack.get("whole_square"),
        "split-experts": stack.get("split_experts"),
        "sends-once": stack.get("sends_once"),
        "batches": stack.get("batches"),
        "short-copies": stack.get("short_copies"),
        "fused-loss": stack.get("fused_loss"),
        "sums-apart": stack.get("sums_apart"),
        "fused-experts": "fused_on" in stack and re.search(stack["fused_on"], machine_name),
        "graphs": "graphs" in stack and re.search(stack["graphs"], machine_name),
    }
    recipe, left_out = _recipe(profile, model.lower(), machine_name, layout)
    return frozenset(recipe.union(name for name, on in does.items() if on) - left_out)


def usual_attention(profile: str) -> Attention:
    """The kernel of attention that scripts of a software ask for, else the one of itself."""
    stacks = data.calibration("training_profiles")["profiles"]
    stack = next(entry for entry in stacks if entry["name"] == profile)
    return Attention(stack.get("scripts", stack["attention"]))


def _recipe(
    profile: str, model: str, hardware: str, layout: TrainingLayout
) -> tuple[set[str], set[str]]:
    """Settings of the published recipe for this model on this hardware, and what it leaves out of
    those that the software usually has.
    """
    found: set[str] = set()
    left_out: set[str] = set()
    for entry in _entries("recipes", profile, model=model, hardware=hardware):
        ep_fits = entry.get("ep", layout.ep) == layout.ep
        if ep_fits and (layout.vpp > 1 or not entry.get("interleaved")):
            found.update(entry.get("flags", ()))
            left_out.update(entry.get("without", ()))
    return found, left_out


@dataclass(frozen=True, slots=True)
class _Release:
    """A version such as 1.3.0, or the month of a release or report such as 2024.12 or 24.12."""

    numbers: tuple[int, ...]
    dated: bool

    @classmethod
    def of(cls, text: str) -> Self | None:
        """What a text names; `None` if it has no number."""
        numbers = tuple(int(part) for part in re.findall(r"[0-9]+", text)[:4])
        if not numbers:
            return None
        month = re.match(r"v?(?:20)?(2[0-9])\.(0?[1-9]|1[0-2])(?![0-9])", text)
        if month:
            return cls((2000 + int(month.group(1)), *numbers[1:]), dated=True)
        return cls(numbers, dated=False)


def _before(release: _Release | None, other: str) -> bool:
    """Whether a release is known to be older than another; versions and months do not compare."""
    than = _Release.of(other)
    if release is None or than is None or release.dated != than.dated:
        return False
    return release.numbers < than.numbers


def _release(row: Mapping[str, str], notes: Notes) -> _Release | None:
    """The release that a row names, or the year and month of its report; `None` if neither."""
    source = row.get("source", "")
    named = re.search(r"@v([0-9]+(?:\.[0-9]+)*)", source)
    dated = re.search(r"_(20[0-9]{2})-?(0[1-9]|1[0-2])(?![0-9])", source)
    stated = notes.values.get("release") or (named.group(1) if named else "")
    if not stated and dated:
        stated = f"{dated.group(1)}.{dated.group(2)}"
    return _Release.of(stated)
