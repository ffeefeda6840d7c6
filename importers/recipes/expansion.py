"""What variables, arithmetic and simple substitutions of a script stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType

from importers.errors import ModelError
from importers.recipes.arithmetic import arithmetic
from importers.recipes.statements import closing, end_of_word, unquoted
from importers.recipes.traced import Traced

__all__ = ["Variables", "expanded", "joined", "words"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = re.compile(r"[0-9@*#]")
_LONGEST = 65_536
"""Characters that what a script expands to may have at one place."""
_MOST_KEPT = 2**21
"""Characters that all variables and commands may have together."""
_MOST_SPENT = 2**24
"""Characters that may be looked at."""
_DEEPEST = 32
_UNKNOWN = "?"
"""What stands in arithmetic for what nobody knows: no number follows from it."""


@dataclass(slots=True)
class Variables:
    """What a script has set so far."""

    known: dict[str, list[Traced]] = field(default_factory=dict)
    """Words of each; a plain variable has one, one of an associative array is `NAME[key]`."""
    environment: list[str] = field(default_factory=list)
    """Variables that only the environment or the command line knows."""
    kept: int = 0
    """Characters kept so far."""
    depth: int = 0
    """Expressions that hold the one that is put in now."""
    spent: int = 0
    """Characters looked at so far."""

    def keep(self, found: list[Traced]) -> list[Traced]:
        """Count what is kept, with a limit.

        Raises:
            ModelError: it is too much.
        """
        self.kept += sum(len(word.text) + 1 for word in found)
        if self.kept > _MOST_KEPT:
            raise ModelError("the script expands to too much text", "", "name its arguments alone")
        return found

    def enter(self, characters: int) -> bool:
        """Count a piece that is looked at, with limits; whether it is not too deep.

        Raises:
            ModelError: too much was looked at.
        """
        self.spent += characters
        if self.spent > _MOST_SPENT:
            raise ModelError("the script expands to too much text", "", "name its arguments alone")
        return self.depth < _DEEPEST

    def value(self, name: str) -> Traced:
        """What a variable has; nothing where nobody set it, which is noted."""
        if name not in self.known:
            if name not in self.environment and not name.endswith("]"):
                self.environment.append(name)
            return Traced()
        return joined(self.known[name])


def joined(found: list[Traced]) -> Traced:
    """Words with blanks between."""
    out = Traced()
    for i, word in enumerate(found):
        out = out + Traced.made(" ") + word if i else word
    return out


def words(value: Traced) -> list[Traced]:
    """The words of a command; what quotes hold together stays so unless it has options."""
    found, text, at = [], value.text, 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        end = end_of_word(text, at)
        word = value.part(at, end)
        bare = unquoted(word)
        if word.text[:1] in "\"'" and re.match(r"\s*--?\w", bare.text):
            found += list(bare.words())
        elif bare.text:
            found.append(bare)
        at = max(end, at + 1)
    return found


def expanded(value: Traced, found: Variables, *, quoted: bool = False) -> Traced:
    """With variables and arithmetic put in; what single quotes hold stays.

    Args:
        value: a piece of the script.
        found: what is set.
        quoted: whether single quotes are letters like others.
    """
    text, out, at, size = value.text, [], 0, 0
    single = double = False
    while at < len(text) and size < _LONGEST:
        character = text[at]
        if character == '"' and not single:
            double = not double
        if character == "'" and not quoted and not double:
            single = not single
        if character == "\\" and text[at + 1 : at + 2] == "$":
            at += 1
        elif character in "$`" and not single:
            piece, at = _variable(value, at, found)
            out.append(piece)
            size += len(piece.text)
            continue
        out.append(value.part(at, at + 1))
        size += 1
        at += 1
    places = tuple(place for each in out for place in each.places)
    return Traced("".join(each.text for each in out), places)


def _variable(value: Traced, at: int, found: Variables) -> tuple[Traced, int]:
    """What `$...` at one place stands for, and where it ends."""
    text = value.text
    if text[at] == "`" or text.startswith(("$(", "${"), at):
        if not found.enter(len(text) - at):
            return Traced(), len(text)
        found.depth += 1
        try:
            return _bracketed(value, at, found)
        finally:
            found.depth -= 1
    name = _NAME.match(text, at + 1) or _SPECIAL.match(text, at + 1)
    if name:
        return found.value(name.group()), name.end()
    return Traced(), min(at + 2, len(text))


def _bracketed(value: Traced, at: int, found: Variables) -> tuple[Traced, int]:
    """What `$((...))`, `$(...)`, `${...}` and backquotes stand for, and where they end."""
    text = value.text
    if text.startswith("$((", at):
        end = closing(text, at + 1) + 1
        number = _calculated(value.part(at + 3, end - 2), found)
        return _made(number, value.part(at, end)), end
    if text.startswith("$(", at):
        end = closing(text, at + 1) + 1
        return _made(_substituted(value.part(at + 2, end - 1), found), value.part(at, end)), end
    if text[at] == "`":
        end = text.find("`", at + 1)
        end = len(text) if end < 0 else end + 1
        return _made(_substituted(value.part(at + 1, end - 1), found), value.part(at, end)), end
    end = _closing_brace(text, at + 1)
    return _braced(value.part(at + 2, end), found), end + 1


def _made(text: str | None, piece: Traced) -> Traced:
    span = piece.span
    return Traced.made(text or "", *((span.start, span.end) if span else (-1, -1)))


def _calculated(inner: Traced, found: Variables) -> str | None:
    """What an arithmetic expression is, if all of it is known."""
    parts, at = [], 0
    while at < len(inner.text):
        if inner.text[at] in "$`":
            piece, at = _variable(inner, at, found)
            parts.append(piece.text.strip() or _UNKNOWN)
        else:
            parts.append(inner.text[at])
            at += 1

    def number(name: re.Match[str]) -> str:
        return found.value(name.group()).text.strip() or _UNKNOWN

    result = arithmetic(re.sub(r"\b[A-Za-z_]\w*", number, unquoted_text("".join(parts))))
    return None if result is None else str(result)


def unquoted_text(text: str) -> str:
    """A text without quotes."""
    return text.replace('"', "").replace("'", "")


def _substituted(inner: Traced, found: Variables) -> str | None:
    """What `expr` and `bc` print; None of another program, as nothing is run."""
    text = inner.text.strip()
    calculated = re.fullmatch(r"expr\s+(.*)", text, re.DOTALL) or re.fullmatch(
        r"echo\s+[\"']?(?:scale=0;?\s*)?([^|\"']*)[\"']?\s*\|\s*bc\b.*", text, re.DOTALL
    )
    if calculated:
        body = inner.text.index(text) + calculated.start(1)
        piece = inner.part(body, body + len(calculated.group(1)))
        plain = Traced(piece.text.replace("\\", " "), piece.places)
        return _calculated(plain, found)
    printed = re.fullmatch(r"echo\s+([^|;&<>]*)", text, re.DOTALL)
    if printed:
        return unquoted(expanded(Traced.made(printed.group(1)), found)).text.strip()
    return None


def _closing_brace(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    return len(text)


_CUTS: Mapping[str, Callable[[str, str], str]] = MappingProxyType({
    "##": lambda text, glob: _cut(text, glob, range(len(text), -1, -1), front=True),
    "#": lambda text, glob: _cut(text, glob, range(len(text) + 1), front=True),
    "%%": lambda text, glob: _cut(text, glob, range(len(text) + 1), front=False),
    "%": lambda text, glob: _cut(text, glob, range(len(text), -1, -1), front=False),
})  # fmt: skip
"""What `${X##...}` and its like leave of a text."""
_LONGEST_CUT = 1_024


def _cut(text: str, glob: str, places: range, *, front: bool) -> str:
    if len(text) > _LONGEST_CUT or glob.count("*") > 2:
        return text
    for at in places:
        if fnmatchcase(text[:at] if front else text[at:], glob):
            return text[at:] if front else text[:at]
    return text


def _braced(inner: Traced, found: Variables) -> Traced:
    """What `${...}` stands for."""
    text = inner.text
    counted = re.fullmatch(r"#([A-Za-z_]\w*)(\[[@*]\])?", text)
    if counted:
        listed = found.known.get(counted.group(1), [])
        return Traced.made(str(len(listed) if counted.group(2) else len(joined(listed).text)))
    name = re.match(r"(!?)([A-Za-z_]\w*|[0-9]+|[@*#])", text)
    if not name:
        return Traced()
    own, rest = _indexed(name.group(2), text[name.end() :], found)
    if name.group(1):
        own = found.value(own.text) if _NAME.fullmatch(own.text) else Traced()
    if not rest:
        return own
    start = len(text) - len(rest)
    return _modified(own, inner.part(start, len(text)), name.group(2), found)


def _indexed(name: str, rest: str, found: Variables) -> tuple[Traced, str]:
    """A variable or one word of an array, and what is done with it."""
    if not rest.startswith("["):
        return found.value(name), rest
    key, rest = rest[1 : rest.find("]")], rest[rest.find("]") + 1 :]
    if key in {"@", "*"}:
        return found.value(name), rest
    own = unquoted(expanded(Traced.made(key), found)).text
    if f"{name}[{own}]" in found.known:
        return found.value(f"{name}[{own}]"), rest
    number = arithmetic(own if not _NAME.fullmatch(own) else found.value(own).text or _UNKNOWN)
    listed = found.known.get(name, [])
    inside = number is not None and -len(listed) <= number < len(listed)
    return (listed[number] if inside and number is not None else Traced()), rest


def _modified(own: Traced, rest: Traced, name: str, found: Variables) -> Traced:
    """A value with what stands behind its name: a default, a cut, a replacement."""
    text = rest.text
    stated = re.match(r":?([-=+?])", text)
    if stated:
        if stated.group(1) == "?" or bool(own.text) != (stated.group(1) == "+"):
            return own if stated.group(1) != "+" else Traced()
        other = expanded(rest.part(stated.end(), len(text)), found)
        if stated.group(1) == "=":
            found.known[name] = found.keep([unquoted(other)])
        return other
    if text in {",,", "^^"}:
        return Traced.made(own.text.lower() if text == ",," else own.text.upper())
    sign = next((each for each in _CUTS if text.startswith(each)), "")
    if sign:
        glob = unquoted(expanded(rest.part(len(sign), len(text)), found)).text
        return Traced.made(_CUTS[sign](own.text, glob))
    replaced = re.fullmatch(r"(//?)((?:[^/\\]|\\.)+)(?:/(.*))?", text, re.DOTALL)
    if replaced:
        wanted = replaced.group(2).replace("\\", "")
        count = -1 if replaced.group(1) == "//" else 1
        return Traced.made(own.text.replace(wanted, replaced.group(3) or "", count)[:_LONGEST])
    part = re.fullmatch(r":\s*(-?[0-9]{1,6})(?::([0-9]{1,6}))?", text)
    if part:
        first = int(part.group(1))
        last = first + int(part.group(2)) if part.group(2) else len(own.text)
        return Traced.made(own.text[first:last])
    return own
