"""Causes of time in words: the same links have the same name in every output."""

from __future__ import annotations

__all__ = ["cause_text", "links_between"]


def links_between(tier: str) -> str:
    """The links of a tier by what they join.

    >>> links_between("server"), links_between("switch")
    ('links between servers', 'links between switches')
    """
    plural = f"{tier}es" if tier.endswith(("s", "x", "ch", "sh")) else f"{tier}s"
    return f"links between {plural}"


def cause_text(cause: str) -> str:
    """A cause of time for people.

    >>> cause_text("all_gather in server"), cause_text("compute forward")
    ('all-gather over links between servers', 'compute forward')
    """
    kind, inside, tier = cause.partition(" in ")
    return f"{kind.replace('_', '-')} over {links_between(tier)}" if inside else cause
