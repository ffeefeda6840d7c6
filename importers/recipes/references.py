"""References inside configurations, as OmegaConf writes them: `${.hidden_size}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from importers.recipes.arithmetic import arithmetic
from ir.recipes.forms import Scalar
from ir.recipes.recipe import Given

__all__ = ["resolved"]

_INNERMOST = re.compile(r"\$\{([^${}]*)\}")
_SIGNS = {
    "multiply": "*",
    "add": "+",
    "sum": "+",
    "divide": "/",
    "sub": "-",
    "mul": "*",
    "int_div": "/",
}
_MOST_STEPS = 32
_LONGEST = 4_096


def resolved(given: Sequence[Given]) -> tuple[Given, ...]:
    """Settings in whose values references to other settings are put in.

    What refers to nothing that is known stays as it stands.
    """
    known = {each.name: each.value for each in given}
    return tuple(
        replace(each, value=_value(each, known))
        if isinstance(each.value, str) and "${" in each.value
        else each
        for each in given
    )


def _value(each: Given, known: Mapping[str, Scalar]) -> Scalar:
    text = str(each.value)
    for _ in range(_MOST_STEPS):
        found = _INNERMOST.search(text)
        if found is None:
            return text
        value = _referred(found.group(1).strip(), each.name, known)
        if value is None or len(text) > _LONGEST:
            return each.value
        if found.group() == text and not isinstance(value, str):
            return value
        text = text[: found.start()] + str(value) + text[found.end() :]
    return each.value


def _referred(inner: str, name: str, known: Mapping[str, Scalar]) -> Scalar:
    """What stands for one reference; None if nobody knows."""
    sign, colon, rest = inner.partition(":")
    if colon:
        parts = [part.strip(" '\"") for part in rest.split(",")]
        if sign == "oc.env":
            return parts[1] if len(parts) > 1 else None
        if sign in _SIGNS:
            number = arithmetic(_SIGNS[sign].join(f"({part})" for part in parts))
            return None if number is None else number
        return None
    if inner.startswith("."):
        dots = len(inner) - len(inner.lstrip("."))
        folder = name.split(".")[:-dots]
        return known.get(".".join([*folder, inner.lstrip(".")]))
    parts = inner.split(".")
    paths = (".".join(parts[start:]) for start in range(min(2, len(parts) - 1) + 1))
    return next((known[path] for path in paths if path in known), None)
