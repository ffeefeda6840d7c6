"""Arguments in a shell script: variables, arrays, arithmetic and conditions followed, nothing run.

What is understood: assignments and arrays with `+=`, `${X:-default}`, `$((...))`, quotes, lines
that go on, documents written with `cat <<EOF`, and `if` over comparisons of texts and numbers.
Loops and functions are passed over; a variable that only the environment knows is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from importers.errors import ModelError
from importers.recipes.arithmetic import arithmetic
from importers.recipes.traced import Traced

__all__ = ["Command", "Script", "read_script"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNED = re.compile(
    r"(?:(?:export|local|declare|readonly)\s+(?:-[a-z]+\s+)*)?([A-Za-z_]\w*)(\+?)="
)
_LONGEST = 65_536
"""Characters that what a script expands to may have at one place."""
_MOST_KEPT = 2**21
"""Characters that all variables and commands may have together."""
_DOCUMENT = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_LAUNCHERS = re.compile(
    r"(?:^|[\s;&|(])(?:\S*/)?(torchrun|msrun|deepspeed|mpirun|srun|accelerate|bash|eval|python3?|\$\{?\w+\}?)\s"
)


@dataclass(frozen=True, slots=True)
class Command:
    """Something that a script starts."""

    written: Traced
    """As it stands in the script."""
    words: list[Traced]
    """With everything put in."""


@dataclass(slots=True)
class Script:
    """What a script sets and starts."""

    variables: dict[str, list[Traced]] = field(default_factory=dict)
    """Words of each; a plain variable has one."""
    commands: list[Command] = field(default_factory=list)
    documents: list[Traced] = field(default_factory=list)
    """Files that it writes from text inside it."""
    environment: list[str] = field(default_factory=list)
    """Variables that only the environment knows."""
    kept: int = 0
    """Characters kept so far."""

    def keep(self, words: list[Traced]) -> list[Traced]:
        """Count what is kept, with a limit."""
        self.kept += sum(len(word.text) for word in words)
        if self.kept > _MOST_KEPT:
            raise ModelError("the script expands to too much text", "", "name its arguments alone")
        return words


def read_script(text: str) -> Script:
    """What a script sets and starts, in the order of its lines."""
    found = Script()
    skipped: list[bool] = []
    for line in _lines(text, found):
        _statement(line, found, skipped)
    return found


def _lines(text: str, found: Script) -> Iterator[Traced]:
    """Whole statements: continued lines, quotes and arrays over several lines are one."""
    at = 0
    while at < len(text):
        end, document = _end_of_statement(text, at)
        yield _without_continuations(text, at, end)
        at = end + 1
        if document:
            close = re.compile(rf"^\s*{re.escape(document)}\s*$", re.MULTILINE).search(text, at)
            stop = close.start() if close else len(text)
            found.documents.append(_expanded(Traced.of(text[at:stop], at), found, quoted=True))
            at = close.end() + 1 if close else len(text)


def _without_continuations(text: str, start: int, end: int) -> Traced:
    """A statement; a line that goes on is joined by a blank, and comments inside are left out."""
    kept: list[Traced] = []
    at, quote = start, ""
    while at < end:
        character = text[at]
        if character == "\\" and text[at + 1 : at + 2] in {"\n", "\r"}:
            kept.append(Traced.made(" "))
            at += 2
            continue
        if not quote and character == "#" and (at == start or text[at - 1].isspace()):
            stop = text.find("\n", at, end)
            at = end if stop < 0 else stop
            continue
        if character in "\"'":
            quote = "" if quote == character else quote or character
        kept.append(Traced.of(character, at))
        at += 1
    places = tuple(place for each in kept for place in each.places)
    return Traced("".join(each.text for each in kept), places)


def _bare(text: str, start: int, *, comments: bool = False) -> Iterator[tuple[int, str]]:
    """The characters outside of quotes and comments, with their places."""
    at, quote = start, ""
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 2
            continue
        if quote or character in "\"'`":
            quote = "" if character == quote else quote or character
        elif comments and character == "#" and (at == start or text[at - 1].isspace()):
            stop = text.find("\n", at)
            at = len(text) if stop < 0 else stop
            continue
        else:
            yield at, character
        at += 1


def _end_of_statement(text: str, start: int) -> tuple[int, str]:
    """Where a statement ends, and the word that ends a document behind it."""
    depth, document = 0, ""
    for at, character in _bare(text, start, comments=True):
        if character in "()":
            depth = max(0, depth + (1 if character == "(" else -1))
        elif character == "<" and text.startswith("<<", at) and not text.startswith("<<<", at):
            opened = _DOCUMENT.match(text, at)
            document = opened.group(1) if opened else document
        elif not depth and (character == "\n" or (character == ";" and not document)):
            return at, document
    return len(text), document


def _statement(line: Traced, found: Script, skipped: list[bool]) -> None:
    text = line.text.strip()
    word = text.split(None, 1)[0] if text else ""
    if word in {"if", "elif", "else", "fi", "then"}:
        rest = _condition(word, line, found, skipped)
        if rest is None:
            return
        line, text = rest, rest.text.strip()
    if not text or text.startswith("#") or any(skipped):
        return
    assigned = _ASSIGNED.match(line.text, len(line.text) - len(line.text.lstrip()))
    while assigned and text:
        end = _assign(line, assigned, found)
        line = line.part(end, len(line.text))
        text = line.text.strip()
        assigned = _ASSIGNED.match(line.text, len(line.text) - len(line.text.lstrip()))
    if text and _LAUNCHERS.search(f" {text} "):
        command = _expanded(line, found)
        found.commands.append(Command(line, found.keep(list(_words(command)))))


def _condition(word: str, line: Traced, found: Script, skipped: list[bool]) -> Traced | None:
    """Follow an `if`; what stands behind `then` or `else` on the same line."""
    start = line.text.index(word) + len(word)
    rest = line.part(start, len(line.text))
    if word == "if":
        skipped.append(not _is_true(rest, found))
    elif word == "fi" and skipped:
        skipped.pop()
    elif word in {"elif", "else"} and skipped:
        taken = not skipped[-1]
        skipped[-1] = taken or (word == "elif" and not _is_true(rest, found))
    if word in {"then", "else"} and rest.text.strip():
        return rest
    return None


_COMPARED = re.compile(r"^(.*?)\s*(==|=|!=|-eq|-ne|-gt|-lt|-ge|-le)\s*(.*)$", re.DOTALL)


def _is_true(condition: Traced, found: Script) -> bool:
    """Whether a comparison holds; False for what is not understood."""
    text = _expanded(condition, found, quoted=True).text
    return any(all(_holds(part) for part in either.split("&&")) for either in text.split("||"))


def _holds(text: str) -> bool:
    inner = re.sub(r"\]\]?\s*$|^\s*\[\[?|;|\bthen\b", "", text.strip()).strip()
    inner = re.sub(r"\]\]?\s*$", "", inner).strip()
    negated = inner.startswith("!")
    inner = inner.lstrip("! ").strip()
    plain = inner.replace('"', "").replace("'", "").strip()
    if plain.startswith("-"):
        kind, _, value = plain.partition(" ")
        return ({"-n": bool(value.strip()), "-z": not value.strip()}.get(kind, False)) != negated
    compared = _COMPARED.match(plain)
    if not compared:
        return False
    one, sign, other = (part.strip() for part in compared.groups())
    if sign in {"==", "=", "!="}:
        return ((one == other) == (sign != "!=")) != negated
    try:
        first, second = int(one), int(other)
    except ValueError:
        return False
    held = {
        "-eq": first == second, "-ne": first != second, "-gt": first > second,
        "-lt": first < second, "-ge": first >= second, "-le": first <= second,
    }[sign]  # fmt: skip
    return held != negated


def _assign(line: Traced, assigned: re.Match[str], found: Script) -> int:
    """Take one assignment; where it ends."""
    name, more, start = assigned.group(1), bool(assigned.group(2)), assigned.end()
    if line.text.startswith("(", start) and not line.text.startswith("((", start):
        end = _closing(line.text, start)
        words = list(_words(_expanded(line.part(start + 1, end), found)))
        found.keep(words)
        found.variables[name] = [*(found.variables.get(name, []) if more else []), *words]
        return min(end + 1, len(line.text))
    end = _end_of_word(line.text, start)
    value = _unquoted(_expanded(line.part(start, end), found))
    if more:
        value = _joined(found.variables.get(name, [])) + value
    found.variables[name] = found.keep([value])
    return end


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at a place is closed."""
    depth = 0
    for at, character in _bare(text, start):
        depth += (character == "(") - (character == ")")
        if not depth:
            return at
    return len(text)


def _end_of_word(text: str, start: int) -> int:
    depth = 0
    for at, character in _bare(text, start):
        depth += (character in "({") - (character in ")}")
        if character.isspace() and depth <= 0:
            return at
    return len(text)


def _joined(words: list[Traced]) -> Traced:
    out = Traced()
    for i, word in enumerate(words):
        out = out + Traced.made(" ") + word if i else word
    return out


def _unquoted(value: Traced) -> Traced:
    kept = [i for i, character in enumerate(value.text) if character not in "\"'"]
    return Traced("".join(value.text[i] for i in kept), tuple(value.places[i] for i in kept))


def _words(value: Traced) -> Iterator[Traced]:
    """The words of a command; what quotes hold together stays so unless it has options."""
    text, at = value.text, 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        end = _end_of_word(text, at)
        word = value.part(at, end)
        bare = _unquoted(word)
        if word.text[:1] in "\"'" and re.match(r"\s*--?\w", bare.text):
            yield from bare.words()
        elif bare.text:
            yield bare
        at = max(end, at + 1)


def _expanded(value: Traced, found: Script, *, quoted: bool = False) -> Traced:
    """With variables and arithmetic put in; what single quotes hold stays."""
    text, out, at, size = value.text, [], 0, 0
    single = False
    while at < len(text) and size < _LONGEST:
        character = text[at]
        if character == "'" and not quoted:
            single = not single
        if character == "\\" and text[at + 1 : at + 2] == "$":
            at += 1
        elif character == "$" and not single:
            piece, at = _variable(value, at, found)
            out.append(piece)
            size += len(piece.text)
            continue
        out.append(value.part(at, at + 1))
        size += 1
        at += 1
    places = tuple(place for each in out for place in each.places)
    return Traced("".join(each.text for each in out), places)


def _variable(value: Traced, at: int, found: Script) -> tuple[Traced, int]:
    """What `$...` at one place stands for, and where it ends."""
    text = value.text
    if text.startswith("$((", at):
        end = text.find("))", at)
        end = len(text) if end < 0 else end + 2
        inner = _expanded(value.part(at + 3, end - 2), found).text
        number = arithmetic(_named_numbers(inner, found))
        span = value.part(at, end).span
        made = "" if number is None else str(number)
        return Traced.made(made, *((span.start, span.end) if span else (-1, -1))), end
    if text.startswith("$(", at):
        return Traced(), _closing(text, at + 1) + 1
    if text.startswith("${", at):
        end = _closing_brace(text, at + 1)
        return _braced(value.part(at + 2, end), found), end + 1
    name = _NAME.match(text, at + 1)
    if name:
        return _value_of(name.group(), found), name.end()
    return Traced(), min(at + 2, len(text))


def _closing_brace(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    return len(text)


def _braced(inner: Traced, found: Script) -> Traced:
    text = inner.text
    name = re.match(r"[A-Za-z_]\w*|[0-9@*]+", text)
    if not name:
        return Traced()
    rest = text[name.end() :]
    if rest.startswith("["):
        rest = rest[rest.find("]") + 1 :]
    own = _value_of(name.group(), found)
    default = re.match(r":?[-=]", rest)
    if default and not own.text:
        return _expanded(inner.part(len(text) - len(rest) + default.end(), len(text)), found)
    return own


def _value_of(name: str, found: Script) -> Traced:
    if name not in found.variables:
        if name not in found.environment:
            found.environment.append(name)
        return Traced()
    return _joined(found.variables[name])


def _named_numbers(text: str, found: Script) -> str:
    """An expression whose variables stand without `$`."""

    def number(name: re.Match[str]) -> str:
        return _value_of(name.group(), found).text or "0"

    return _NAME.sub(number, text)
