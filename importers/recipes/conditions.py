"""Whether a condition of a shell script holds."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from importers.recipes.arithmetic import arithmetic
from importers.recipes.expansion import Variables, expanded
from importers.recipes.statements import top_level
from importers.recipes.traced import Traced

__all__ = ["holds"]

_COMPARED = re.compile(r"^(.*?)\s*(==|=|!=|-eq|-ne|-gt|-lt|-ge|-le)\s*(.*)$", re.DOTALL)
_LONGEST = 200


def holds(condition: Traced, found: Variables) -> bool:
    """Whether a comparison holds; False for what is not understood."""
    text = condition.text
    either = []
    for _, start, end in top_level(text, ("||",)):
        both = top_level(text[start:end], ("&&",))
        either.append(all(_part(condition.part(start + a, start + b), found) for _, a, b in both))
    return any(either)


def _part(piece: Traced, found: Variables) -> bool:
    calculated = re.fullmatch(r"\s*(!?)\s*\(\((.*)\)\)\s*(?:;|then)?\s*", piece.text, re.DOTALL)
    if calculated:
        inner = piece.part(calculated.start(2), calculated.end(2))
        made = Traced.made("$((") + inner + Traced.made("))")
        number = arithmetic(expanded(made, found).text or "?")
        return (number or 0) != 0 and not calculated.group(1)
    text = expanded(piece, found, quoted=True).text
    return any(
        all(_holds(each) for each in re.split(r"&&|\s-a\s", other))
        for other in re.split(r"\|\||\s-o\s", text)
    )


def _holds(text: str) -> bool:
    inner = re.sub(r"^\s*(\[\[?|test\b)|;|\bthen\b", "", text.strip()).strip()
    inner = re.sub(r"\]\]?\s*$", "", inner).strip()
    negated = inner.startswith("!") and not inner.startswith("!=")
    inner = inner.lstrip("! ").strip() if negated else inner
    plain = inner.replace('"', "").replace("'", "").strip()
    if plain in {"true", "false"}:
        return (plain == "true") != negated
    if plain.startswith("-") and not re.match(r"-[0-9]", plain):
        kind, _, value = plain.partition(" ")
        return ({"-n": bool(value.strip()), "-z": not value.strip()}.get(kind, False)) != negated
    compared = _COMPARED.match(plain)
    if not compared:
        return bool(plain) and text.lstrip().startswith("[") and not negated
    one, sign, other = (part.strip() for part in compared.groups())
    if sign in {"==", "=", "!="}:
        same = one == other or ("*" in other and fnmatchcase(one[:_LONGEST], other[:_LONGEST]))
        return (same == (sign != "!=")) != negated
    try:
        first, second = int(one), int(other)
    except ValueError:
        return False
    held = {
        "-eq": first == second, "-ne": first != second, "-gt": first > second,
        "-lt": first < second, "-ge": first >= second, "-le": first <= second,
    }[sign]  # fmt: skip
    return held != negated
