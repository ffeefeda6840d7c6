"""Settings of a shell script: the arguments of what it starts, and files that it writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from importers.recipes.documents import yaml_settings
from importers.recipes.shell import Command, Script, read_script
from importers.recipes.traced import Traced
from ir.recipes.recipe import Given, RecipeFile, Span

__all__ = ["shell_file"]

_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(=?)")
_ASSIGNED = re.compile(r"([A-Za-z_][\w.]*)=")
_ENDS = frozenset({"|", "&&", "||", ";", "&", ">", ">>", "2>&1", "2>"})


def shell_file(name: str, text: str) -> RecipeFile:
    """The settings of a script, or of a file with arguments alone."""
    script = read_script(text)
    command = max(script.commands, key=lambda each: _options(each.words), default=None)
    if command is None or not _options(command.words):
        lines = re.sub(r"(^|\s)#[^\n]*", lambda m: " " * len(m.group()), text)
        words = [w for w in Traced.of(lines, 0).words() if w.text != "\\"]
        command = Command(Traced.of(lines.rstrip(), 0), words)
    given = (*_documents(script, text), *_given(command.words, text))
    return RecipeFile(name, "shell", text, given, _remarks(script), _end(command.written))


def _options(words: Sequence[Traced]) -> int:
    return sum(bool(_OPTION.match(w.text) or _ASSIGNED.match(w.text)) for w in words)


def _end(written: Traced) -> int:
    """Behind the last argument of a command, before what its output goes to."""
    sent = re.search(r"\s(\||>|2>|&)", written.text)
    own = written.text[: sent.start() if sent else None].rstrip(" \\\n\t")
    return next((end for _, end in reversed(written.places[: len(own)]) if end >= 0), -1)


def _remarks(script: Script) -> tuple[str, ...]:
    plain = [name for name in script.environment if not name.isdecimal()]
    if not plain:
        return ()
    return (f"only the environment knows {', '.join(plain[:8])}: taken as empty",)


def _documents(script: Script, text: str) -> Iterator[Given]:
    """Settings of JSON and YAML that the script writes."""
    for document in script.documents:
        places = document.places
        for each in yaml_settings(document.text, "the document in the script"):
            span = each.span and document.part(each.span.start, each.span.end).span
            start = next((a for a, _ in places[each.span.start :] if a >= 0), 0) if each.span else 0
            yield Given(each.name, each.value, _line(text, start), span)


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, max(offset, 0)) + 1


def _given(words: Sequence[Traced], text: str) -> Iterator[Given]:
    stop = next((i for i, word in enumerate(words) if word.text in _ENDS), len(words))
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
    return text in _ENDS or (_OPTION.match(text) is not None and not re.match(r"-[0-9]", text))


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
