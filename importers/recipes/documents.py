"""Settings of YAML, JSON, TOML and gin files, each with the place of its value."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import yaml

from importers.errors import ModelError
from importers.recipes.references import resolved
from ir.recipes.forms import Scalar
from ir.recipes.recipe import Given, RecipeFile, Span

__all__ = ["gin_file", "json_file", "toml_file", "yaml_file", "yaml_settings"]

_MOST_NODES = 50_000
_MOST_DEPTH = 64
_LONGEST_LIST = 4_096
_LOADER: Any = yaml.SafeLoader
_Report: TypeAlias = Callable[[str], None]


def yaml_file(name: str, text: str) -> RecipeFile:
    """The settings of a YAML file.

    Raises:
        ModelError: no YAML, too large, or of too many references.
    """
    remarks: list[str] = []
    given = resolved(tuple(yaml_settings(text, name, remarks.append)))
    return RecipeFile(name, "yaml", text, given, tuple(remarks), len(text))


def json_file(name: str, text: str) -> RecipeFile:
    """The settings of a JSON file: JSON whose places YAML's parser finds.

    Raises:
        ModelError: no JSON.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{name} is no JSON: {error}", name, "mend the file") from error
    given = tuple(yaml_settings(text.replace("\t", " "), name))
    end = text.rstrip().rfind("}")
    return RecipeFile(name, "json", text, given, (), end)


def yaml_settings(text: str, name: str, report: _Report = lambda _: None) -> Iterator[Given]:
    """The scalars and short lists of a document by their paths, and where they stand.

    Args:
        text: of the document.
        name: for messages.
        report: receives what was noticed.

    Raises:
        ModelError: as `yaml_file` says.
    """
    try:
        loader = _LOADER(text)
        root = loader.get_single_node()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        what = " ".join(str(error).split())[:200]
        raise ModelError(f"{name} is no YAML: {what}", name, "mend the file") from error
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise ModelError(f"{name} holds no settings by name", name, "name a recipe")
    walk = _Walk(text, name, report)
    yield from walk.mapping(root, "", 0)


_MARKS = re.compile(r"(?:[&!]\S+\s+)+")
"""Anchors and tags before a value."""


class _Walk:
    """A walk over YAML nodes that counts what it visits, so that references cannot explode."""

    def __init__(self, text: str, name: str, report: _Report) -> None:
        self._text, self._name, self._report, self._left = text, name, report, _MOST_NODES

    def mapping(self, node: yaml.MappingNode, path: str, depth: int) -> Iterator[Given]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            self._count(depth)
            own = str(key.value)
            if own == "<<" and isinstance(value, yaml.MappingNode):
                yield from self.mapping(value, path, depth + 1)
                continue
            line = key.start_mark.line + 1
            if own in seen:
                self._report(
                    f"line {line}: {path}{own} stands on line {seen[own]} too; the later one counts"
                )
            seen[own] = line
            yield from self._value(value, f"{path}{own}", depth)

    def _value(self, node: yaml.Node, path: str, depth: int) -> Iterator[Given]:
        if isinstance(node, yaml.MappingNode):
            yield from self.mapping(node, f"{path}.", depth + 1)
            return
        start, end = node.start_mark.index, node.end_mark.index
        marked = _MARKS.match(self._text, start, end)
        span = Span(marked.end() if marked else start, end)
        yield Given(path, self._plain(node, depth), node.start_mark.line + 1, span)
        if isinstance(node, yaml.SequenceNode):
            for number, each in enumerate(node.value[:_LONGEST_LIST]):
                if isinstance(each, yaml.MappingNode):
                    yield from self.mapping(each, f"{path}.{number}.", depth + 1)

    def _plain(self, node: yaml.Node, depth: int) -> Scalar:
        self._count(depth)
        if isinstance(node, yaml.SequenceNode):
            return [
                self._plain(each, depth + 1)
                for each in node.value[:_LONGEST_LIST]
                if not isinstance(each, yaml.MappingNode)
            ]
        kind, text = node.tag.rpartition(":")[2], str(node.value)
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in {"true", "yes", "on"}
        return text

    def _count(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > _MOST_DEPTH:
            raise ModelError(
                f"{self._name} has more than {_MOST_NODES:,} values, references counted, or is "
                f"deeper than {_MOST_DEPTH}",
                self._name,
                "name a recipe alone",
            )


_TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"-]+)\s*=\s*")


def toml_file(name: str, text: str) -> RecipeFile:
    """The settings of a TOML file.

    Raises:
        ModelError: no TOML.
    """
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ModelError(f"{name} is no TOML: {error}", name, "mend the file") from error
    places = dict(_toml_places(text))
    given = tuple(
        Given(path, value, *places.get(path, (1, None))) for path, value in _flat(found, "", 0)
    )
    return RecipeFile(name, "toml", text, given, (), len(text))


def _flat(found: Mapping[str, object], path: str, depth: int) -> Iterator[tuple[str, Scalar]]:
    for key, value in found.items():
        if isinstance(value, dict) and depth < _MOST_DEPTH:
            yield from _flat(value, f"{path}{key}.", depth + 1)
        else:
            yield f"{path}{key}", _toml_scalar(value)


def _toml_scalar(value: object) -> Scalar:
    if isinstance(value, list):
        return [_toml_scalar(each) for each in value[:_LONGEST_LIST]]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def _toml_places(text: str) -> Iterator[tuple[str, tuple[int, Span | None]]]:
    """Where values stand that are on one line."""
    table, offset = "", 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        opened, key = _TABLE.match(line), _KEY.match(line)
        if opened:
            table = opened.group(1).strip() + "."
        elif key:
            end = _toml_end(line, key.end())
            span = Span(offset + key.end(), offset + end)
            own = key.group(1).replace('"', "")
            yield f"{table}{own}", (number, span)
        offset += len(line)


def _toml_end(line: str, start: int) -> int:
    """Where a value ends: before a comment that is in no text."""
    quote = ""
    for at in range(start, len(line)):
        if line[at] in "\"'" and not (quote and quote != line[at]):
            quote = "" if quote else line[at]
        elif line[at] == "#" and not quote:
            return start + len(line[start:at].rstrip())
    return start + len(line[start:].rstrip())


_BINDING = re.compile(
    r"^([ \t]*)([A-Za-z_][\w./]*)[ \t]*=[ \t]*([^\n]+)$|^([A-Za-z_][\w./]*):", re.MULTILINE
)


def gin_file(name: str, text: str) -> RecipeFile:
    """The bindings of a gin file, in blocks or alone; macros are put in, scopes of evaluation not
    taken.
    """
    macros: dict[str, str] = {}
    given = []
    block = ""
    for found in _BINDING.finditer(text):
        indent, path, _, opened = found.groups()
        if opened:
            block = f"{opened}."
            continue
        end = found.start() + _toml_end(found.group(), found.start(3) - found.start())
        value = text[found.start(3) : end]
        block = block if indent else ""
        scope, _, own = f"{block}{path}".rpartition("/")
        value = macros.get(value[1:], value) if value.startswith("%") else value
        macros.setdefault(path, value)
        if "eval" not in scope and "infer" not in scope:
            line = text.count("\n", 0, found.start()) + 1
            given.append(Given(own, value.strip("\"'"), line, Span(found.start(3), end)))
    return RecipeFile(name, "gin", text, tuple(given), (), len(text))
