"""Texts such as `tp=8,pp=4,sp`: values by their names."""

from __future__ import annotations

from collections.abc import Sequence

from planner.asking.errors import UserError, unknown_name


def named_parts(text: str, known: Sequence[str], noun: str, option: str) -> dict[str, str]:
    """The parts of a text between commas; one without `=` has an empty value.

    >>> named_parts("tp=8, sp", ("tp", "sp"), "part of a layout", "--layout")
    {'tp': '8', 'sp': ''}

    Args:
        text: what the user wrote.
        known: names that may stand in it.
        noun: what a name is, for errors.
        option: where it was given.

    Raises:
        UserError: an unknown name, or one given twice.
    """
    out: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        key, _, value = (side.strip() for side in part.partition("="))
        if key not in known:
            raise unknown_name(noun, key, known, f"{option} {text}")
        if key in out:
            raise UserError(f"{key} is given twice", f"{option} {text}", "give it once")
        out[key] = value
    return out
