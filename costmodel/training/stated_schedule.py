"""The order of a pipeline's passes that notes of a row state, by the names that frameworks use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costmodel.training.notes import Notes

__all__ = ["interleaved", "stated_order"]

_KEYS = (
    "schedule", "pipeline-schedule", "pipeline_schedule", "pipeline_parallel_schedule",
    "schedules-method", "pipeline_scheduler",
)  # fmt: skip
"""Of plain notes, torchtitan, MindSpeed and MindSpore."""

_END = r"(?![a-z0-9]|[-_][a-z])"
_NAMES = (
    (r"\bdual-?pipe" + _END, "dualpipe"),
    (r"\bzb-?h1" + _END, "zb-h1"),
    (r"\bzb-?h2" + _END, "zb-h2"),
    (r"\bgpipe" + _END, "gpipe"),
    (r"\b(?:interleaved[-_ ]?)?1f1b" + _END + r"|\binterleaved" + _END, ""),
)
_OTHERS = r"\b(?:dual-?pipe-?v|zb-?v|zbvzerobubble|zero_bubble_v)\b"
"""Orders that have no formula here."""


_INTERLEAVED = r"(?<!non[- ])(?<!not )\binterleaved(?:[-_ ]?1f1b)?" + _END


def interleaved(notes: Notes) -> bool:
    """Whether notes say that stages have several chunks of layers in turn."""
    return notes.has(_INTERLEAVED)


def stated_order(notes: Notes, unread: list[str]) -> str:
    """Name of the order, empty for 1F1B or an interleaved one; `unread` grows by one not known."""
    values = [notes.values[key] for key in _KEYS if key in notes.values]
    for pattern, name in _NAMES:
        if any(re.search(pattern, text) for text in values or [notes.text]):
            return name
    other = re.search(_OTHERS, notes.text)
    if values or other:
        what = values[0] if values else other and other.group()
        unread.append(f"a schedule {what!s:.40} is not known; it is taken as 1F1B")
    return ""
