"""Settings of a shell script: the arguments of what it starts, and files that it writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from importers.errors import ModelError
from importers.recipes.documents import yaml_settings
from importers.recipes.expansion import expanded
from importers.recipes.shell import Command, Script, read_script, variables_with_options
from importers.recipes.traced import Traced
from ir.recipes.recipe import Given, RecipeFile, Span

__all__ = ["shell_file"]

_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(=?)")
_ASSIGNED = re.compile(r"\+{0,2}([A-Za-z_][\w.]*)=")
_REDIRECTED = re.compile(r"[0-9]?[<>]|&>|&$|;$")
_BETWEEN = re.compile(r"\s(?:&&|\|\|?|;)(?=\s)|;\s")
"""Between commands of a text in quotes, in which `type:a|b` is one word."""
_MOST_SHOWN = 12
_SIZEABLE = 0.5
"""Options of another command over those of the largest that make it worth a remark."""


def shell_file(
    name: str,
    text: str,
    environment: Mapping[str, str] | None = None,
    others: Mapping[str, str] | None = None,
) -> RecipeFile:
    """The settings of a script, or of a file with arguments alone.

    Args:
        name: of the file.
        text: of the file.
        environment: variables that it is started with; `1` is its first argument.
        others: further scripts by name, which it may read with `source`.

    Raises:
        ModelError: it expands to too much.
    """
    script = read_script(text, environment or {}, others or {})
    commands = [each for own in script.commands for each in (own, *_inner(own, script))]
    command = max(commands, key=lambda each: _options(each.words), default=None)
    remarks = [*_remarks(script), *_rivals(command, commands, text)]
    if command is None or not _options(command.words):
        command = _arguments_alone(script, text)
    given = (*_documents(script, text), *_given(command.words, text))
    return RecipeFile(name, "shell", text, given, tuple(remarks), _end(command.written))


def _arguments_alone(script: Script, text: str) -> Command:
    """The arguments of a file that starts nothing: those in its variables, or all its words."""
    lines = re.sub(r"(^|\s)#[^\n]*", lambda m: " " * len(m.group()), text)
    own = list(variables_with_options(script))
    words = own or [w for w in Traced.of(lines, 0).words() if w.text != "\\"]
    return Command(Traced.of("" if own else lines.rstrip(), 0), words)


def _inner(command: Command, script: Script) -> Iterator[Command]:
    """What a command is told to start: `bash -c '...'`, `--command="..."`."""
    for word in command.words:
        if not any(character.isspace() for character in word.text):
            continue
        named = _OPTION.match(word.text)
        start = named.end() if named and named.group(2) else 0
        inner = word.part(start, len(word.text))
        bounds = [(m.start(), m.end()) for m in _BETWEEN.finditer(inner.text)]
        firsts = [0, *(end for _, end in bounds)]
        lasts = [*(begin for begin, _ in bounds), len(inner.text)]
        for first, last in zip(firsts, lasts, strict=True):
            piece = inner.part(first, last)
            found = list(expanded(piece, script.variables).words())
            yield Command(piece, script.variables.keep(found))


def _options(words: Sequence[Traced]) -> int:
    return sum(bool(_OPTION.match(w.text) or _ASSIGNED.match(w.text)) for w in words)


def _rivals(chosen: Command | None, commands: Sequence[Command], text: str) -> Iterator[str]:
    """What is said where other commands have nearly as many options."""
    if chosen is None:
        return
    least = max(8, _SIZEABLE * _options(chosen.words))
    lines = {
        _line(text, each.written.start) for each in commands
        if each is not chosen and _options(each.words) >= least
    } - {_line(text, chosen.written.start)}  # fmt: skip
    if lines:
        shown = ", ".join(map(str, sorted(lines)[:8]))
        own = _line(text, chosen.written.start)
        yield f"the command of line {own} is read; others are on line {shown}"


def _end(written: Traced) -> int:
    """Behind the last argument of a command, before what its output goes to."""
    sent = re.search(r"\s(\||>|2>|&)", written.text)
    own = written.text[: sent.start() if sent else None].rstrip(" \\\n\t")
    return next((end for _, end in reversed(written.places[: len(own)]) if end >= 0), -1)


def _remarks(script: Script) -> tuple[str, ...]:
    unknown = [
        f"${name}" if name.isdecimal() else name
        for name in script.variables.environment if name not in {"@", "*", "#"}
    ]  # fmt: skip
    remarks = tuple(script.loops)
    if not unknown:
        return remarks
    shown = ", ".join(unknown[:_MOST_SHOWN]) + (" and others" if len(unknown) > _MOST_SHOWN else "")
    return (*remarks, f"the script does not set {shown}: taken as empty (--set NAME=VALUE)")


def _documents(script: Script, text: str) -> Iterator[Given]:
    """Settings of JSON and YAML that the script writes."""
    for document in script.documents:
        places = document.places
        try:
            found = list(yaml_settings(document.text, "the document in the script"))
        except ModelError:  # a text of another kind
            continue
        for each in found:
            span = each.span and document.part(each.span.start, each.span.end).span
            start = next((a for a, _ in places[each.span.start :] if a >= 0), 0) if each.span else 0
            yield Given(each.name, each.value, _line(text, start), span)


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, max(offset, 0)) + 1


def _given(words: Sequence[Traced], text: str) -> Iterator[Given]:
    stop = next((i for i, word in enumerate(words) if _REDIRECTED.match(word.text)), len(words))
    at = 0
    while at < stop:
        word = words[at]
        at += 1
        assigned, option = _ASSIGNED.match(word.text), _OPTION.match(word.text)
        if option and option.group(2):
            value = word.part(option.end(), len(word.text))
            yield _of(_plain(option.group(1)), [value], word, text)
        elif option:
            values = list(_values(words[at:stop]))
            at += len(values)
            yield _of(_plain(option.group(1)), values, word, text)
        elif assigned:
            yield _of(assigned.group(1), [word.part(assigned.end(), len(word.text))], word, text)
        elif word.text.endswith((".yml", ".yaml")):
            yield _of("config", [word], word, text)


def _values(words: Sequence[Traced]) -> Iterator[Traced]:
    """The values of an option: what follows it up to the next, but a script and its settings."""
    for word in words:
        if _is_option(word.text) or _ASSIGNED.match(word.text) or word.text.endswith(".py"):
            return
        yield word


def _is_option(text: str) -> bool:
    return _OPTION.match(text) is not None and not re.match(r"-[0-9]", text)


def _plain(name: str) -> str:
    """As argparse takes it; names with dots are paths of a configuration."""
    return name if "." in name else name.replace("_", "-")


def _of(name: str, values: Sequence[Traced], word: Traced, text: str) -> Given:
    spans = [value.span for value in values]
    first = word.span
    whole = None
    if first is not None and all(spans):
        last = spans[-1] if spans else first
        if last is not None and first.start <= last.start and _joined(first, last, text):
            whole = Span(first.start, last.end)
    value = " ".join(each.text for each in values) if values else True
    span = spans[0] if len(spans) == 1 else None
    start = values[0].start if values and values[0].start >= 0 else word.start
    return Given(name, value, _line(text, start), span, whole, first)


def _joined(first: Span, last: Span, text: str) -> bool:
    """Whether nothing but blanks lies between a name and its value."""
    between = text[first.end : last.start] if last.start > first.end else ""
    return not between.replace("\\\n", "").strip("\"' \t")
