"""Cells of a table of runs: numbers, degrees and the words of a column, or why they are none.

What says that a source does not state something (`n/a`, `-`) is read as an empty cell. A 0 is
never: it is refused wherever it has no plain meaning.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from costmodel.training.records import LayoutError, Recompute

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "as_number", "cell", "degree", "needed", "number", "recompute_words", "size", "switch",
    "without_commas", "zero_stage",
]  # fmt: skip

_UNSTATED = {
    "n/a", "#n/a", "n.a.", "na", "<na>", "nan", "null", "-", "--", "\N{EN DASH}", "\N{EM DASH}",
    "?", "tbd", "unknown", "unspecified", "not stated", "not reported", "not published",
    "not specified", "not given", "not available",
}  # fmt: skip
_ON = {"yes", "y", "true", "on", "enabled", "1", "1.0"}
_OFF = {"no", "n", "false", "off", "disabled", "none", "w/o", "without", "0", "0.0"}
_LARGEST = 10**9
_SHOWN = 40
"""Characters of a cell that a message repeats."""

_THOUSANDS = re.compile(
    r"[+-]?[0-9]{1,3}(?:([,'\u2019 \u00a0\u2009\u202f])[0-9]{3})(?:\1[0-9]{3})*(\.[0-9]*)?"
)
_ZERO = re.compile(r"(?:zero[ _-]?)?(?:stage[ _-]?)?([0-3])(?: ?\(.*\))?")
_SHARDED = {
    "ddp": 0, "no_shard": 0, "distributed optimizer": 1, "use-distributed-optimizer": 1,
    "shard_grad_op": 2, "fsdp": 3, "fsdp2": 3, "full_shard": 3,
}  # fmt: skip
"""What PyTorch calls the ends of ZeRO's scale."""

_FILLERS = {
    "recompute",
    "recomputation",
    "activation",
    "activations",
    "ac",
    "remat",
    "policy",
    "checkpoint",
    "checkpointing",
    "granularity",
}
_POLICIES = {
    "uniform": Recompute.FULL,
    "full": Recompute.FULL,
    "full uniform": Recompute.FULL,
    "selective": Recompute.SELECTIVE,
    "selective core attn": Recompute.SELECTIVE,
    "selective core attention": Recompute.SELECTIVE,
    "core attn": Recompute.SELECTIVE,
    "core attention": Recompute.SELECTIVE,
    "custom": Recompute.FULL,
    **dict.fromkeys(
        (
            "op",
            "per op",
            "selective op",
            "selective per op",
            "op selective",
            "per op selective",
            "sac",
            "op sac",
            "per op sac",
        ),
        Recompute.SELECTIVE,
    ),
    "w o": Recompute.NONE,
    "minimal": Recompute.SELECTIVE,
    "minimal flash": Recompute.NONE,
    "minimal with context": Recompute.NONE,
    "minimal offloaded": Recompute.SELECTIVE,
    "save dot except mlp": Recompute.FULL,
    "save dot except mlpwi": Recompute.FULL,
    "save dot with context except mlp": Recompute.FULL,
    "save out proj": Recompute.FULL,
    "qkv proj offloaded": Recompute.FULL,
    "save qkv proj": Recompute.FULL,
    **dict.fromkeys(_ON, Recompute.FULL),
    **dict.fromkeys(_OFF, Recompute.NONE),
}
"""Policies by the words of a cell without fillers: Megatron's granularity and method, MaxText's."""

_BLOCKS = {"block", "full block"}
"""Megatron's method that computes some layers of a chunk again; notes say how many."""


def cell(row: Mapping[str, str], column: str) -> str:
    """What a row states in a column; empty if it is empty, missing or says that it is unstated."""
    text = row.get(column, "").strip()
    return "" if text.lower() in _UNSTATED else text


def number(row: Mapping[str, str], column: str) -> int | None:
    """The whole number of 1 or more in a column, `None` if it is not stated."""
    text = cell(row, column)
    return None if not text or text.lower() == "none" else _whole(text, column)


def size(row: Mapping[str, str], column: str) -> int:
    """The whole number of 1 or more that a column must have."""
    value = number(row, column)
    if value is None:
        raise LayoutError(f"column {column!r} is empty")
    return value


def degree(row: Mapping[str, str], column: str) -> int | None:
    """Parts of a parallel layout, `None` if they are not stated; words such as `off` say one."""
    text = cell(row, column)
    if text.lower() in _OFF - {"0", "0.0"}:
        return 1
    return _whole(text, column, " nor 'none'") if text else None


def needed(name: str, value: float | None, least: int = 1) -> int | None:
    """A size from the notes, `None` if they do not state it."""
    if value is not None and not (least <= value <= _LARGEST and value == int(value)):
        what = f"not a whole number from {least} to 1e9"
        raise LayoutError(f"{name} in 'notes' is {value:g}, {what}")
    return None if value is None else int(value)


def switch(row: Mapping[str, str], column: str) -> bool | None:
    """Yes or no, `None` if the row does not say."""
    text = cell(row, column)
    word = text.lower()
    if word and word not in _ON | _OFF:
        raise LayoutError(f"{column} is {text[:_SHOWN]!r}; known: yes, no")
    return word in _ON if word else None


def zero_stage(row: Mapping[str, str]) -> int | None:
    """The stage of ZeRO from 0 to 3, `None` if the row does not say."""
    text = cell(row, "zero_stage")
    word = text.lower()
    if not word:
        return None
    if word in _OFF:
        return 0
    found, value = _ZERO.fullmatch(word), as_number(word)
    if value in {0.0, 1.0, 2.0, 3.0}:
        return int(value)
    stage = int(found.group(1)) if found else _SHARDED.get(word)
    if stage is None:
        raise LayoutError(f"zero_stage is {text[:_SHOWN]!r}; known: 0 to 3, none, fsdp")
    return stage


def recompute_words(row: Mapping[str, str]) -> tuple[Recompute, bool] | None:
    """The policy, and whether it holds for some layers of each chunk only; `None` if unstated."""
    text = cell(row, "recompute")
    if not text:
        return None
    every = re.split(r"[^a-z0-9]+", text.lower())
    words = " ".join(word for word in every if word and word not in _FILLERS)
    if words in _BLOCKS:
        return Recompute.FULL, True
    # Fillers alone, such as `activation checkpointing`, say yes.
    policy = _POLICIES.get(words) if words else Recompute.FULL
    if policy is None or not any(every):
        raise LayoutError(f"recompute is {text[:_SHOWN]!r}; known: none, selective, full")
    return policy, False


def without_commas(text: str) -> str:
    """A number as it is read: without the commas, blanks or apostrophes between its thousands."""
    found = _THOUSANDS.fullmatch(text)
    return text.replace(found.group(1), "") if found else text


def as_number(text: str) -> float:
    """A number as people write it, NaN for anything else."""
    try:
        return math.nan if "_" in text else float(without_commas(text))
    except ValueError:
        return math.nan


def _whole(text: str, column: str, also: str = "") -> int:
    value = as_number(text)
    if not (1 <= value <= _LARGEST and value == int(value)):
        what = f"column {column!r} is {text[:_SHOWN]!r}, not a whole number from 1 to 1e9{also}"
        raise LayoutError(what)
    return int(value)
