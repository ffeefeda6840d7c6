"""Another layout in the words of the user's own file: only what must change is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff

from exporters.recipes.writing import argument, scalar_text
from ir.recipes.forms import Scalar, same_scalar, spelled
from ir.recipes.quantities import Quantities, Value
from ir.recipes.recipe import Given, Recipe, RecipeFile, Span

__all__ = ["Edited", "changed_settings", "edited"]


@dataclass(slots=True)
class Edited:
    """The files of a recipe with another layout."""

    texts: dict[str, str]
    """By name, those that are as before too."""
    aside: list[str] = field(default_factory=list)
    """Settings that no file given can hold, as they would be written."""
    environment: list[str] = field(default_factory=list)
    """What the environment must be for the other layout, a sentence each."""

    def diff(self, recipe: Recipe) -> str:
        """What is different, as `diff -u` prints it."""
        parts: list[str] = []
        for file in recipe.files:
            old, new = file.text.splitlines(), self.texts[file.name].splitlines()
            parts += unified_diff(old, new, file.name, file.name, lineterm="", n=2)
        return "\n".join(parts)


def changed_settings(
    recipe: Recipe, old: Mapping[str, Value], new: Mapping[str, Value]
) -> dict[str, tuple[int, Scalar]]:
    """Settings that say another layout, each with the number of its file; None leaves one out."""
    stated = frozenset(recipe.settings)
    settings = recipe.settings
    before, after = (recipe.framework.written(values, settings) for values in (old, new))
    out: dict[str, tuple[int, Scalar]] = {}
    for number in sorted({*before, *after}):
        one, other = before.get(number, {}), after.get(number, {})
        for name in dict.fromkeys((*other, *one)):
            was, now = one.get(name), other.get(name)
            if was == now or (now is not None and same_scalar(settings.get(name), now)):
                continue
            if now is not None or name in stated:
                out[name] = (number, now)
    written = {name for settings in after.values() for name in settings}
    for entry in recipe.framework.entries:
        if entry.cases and old.get(entry.quantity) != new.get(entry.quantity):
            for name in sorted(entry.settings & stated - written):
                out.setdefault(name, (entry.file, None))
    return _needed(recipe, out, frozenset(_together(recipe, new)))


def _together(recipe: Recipe, new: Mapping[str, Value]) -> Iterator[str]:
    """Settings that the framework wants beside others, although these alone say the value."""
    for entry in recipe.framework.entries:
        for case in entry.cases:
            if case.value == new.get(entry.quantity) and not case.reads and len(case.settings) > 1:
                yield from (name for name, value in case.settings.items() if value is not None)


def _needed(
    recipe: Recipe, changes: dict[str, tuple[int, Scalar]], together: frozenset[str]
) -> dict[str, tuple[int, Scalar]]:
    """Changes without those that say what follows anyway: of settings that are new, that leave a
    number to the framework, or that would be taken out.
    """
    unset = {entry.at: entry.unset for entry in recipe.framework.entries if entry.unset}
    for name in list(changes):
        own = recipe.settings.get(name)
        left = any(same_scalar(own, each) for each in unset.get(name, ()))
        if name in together and changes[name][1] is not None:
            continue
        if left or name not in recipe.settings or changes[name][1] is None:
            fewer = {each: change for each, change in changes.items() if each != name}
            if _says(recipe, fewer) == _says(recipe, changes):
                changes = fewer
    return changes


def _says(recipe: Recipe, changes: Mapping[str, tuple[int, Scalar]]) -> dict[str, Value]:
    """What the files say with some changes."""
    known = Quantities()
    for name, value in recipe.said.items():
        known.say(name, value, "the command")
    settings = {**recipe.settings, **{name: value for name, (_, value) in changes.items()}}
    recipe.framework.read(settings, {}, known)
    return known.values()


def edited(recipe: Recipe, old: Mapping[str, Value], new: Mapping[str, Value]) -> Edited:
    """The user's files with another layout.

    Args:
        recipe: as it was read.
        old: quantities of its own layout.
        new: quantities of the other layout.
    """
    pieces: dict[str, list[tuple[Span, str]]] = {file.name: [] for file in recipe.files}
    found = Edited({file.name: file.text for file in recipe.files})
    for name, (number, value) in changed_settings(recipe, old, new).items():
        place = recipe.place(name)
        change = _replaced(*place, value) if place else None
        file = place[0] if place else _file_for(recipe, number)
        if change is None and file is not None and value is not None:
            change = _inserted(file, name, value)
        if change is None or file is None:
            found.aside.append(f"{name} = {spelled(value)}" if value is not None else f"no {name}")
        else:
            pieces[file.name].append(change)
    for file in recipe.files:
        found.texts[file.name] = _applied(file.text, pieces[file.name])
    found.environment += _environment(recipe, old, new)
    return found


def _environment(
    recipe: Recipe, old: Mapping[str, Value], new: Mapping[str, Value]
) -> Iterator[str]:
    """Variables that one layout wants set and the other not."""
    for kind in recipe.framework.files:
        for variable, without in kind.exports:
            before, after = (
                not without or not all(each.holds(values.get(each.quantity)) for each in without)
                for values in (old, new)
            )
            if before != after:
                yield f"{'set' if after else 'do not set'} {variable}"


def _file_for(recipe: Recipe, number: int) -> RecipeFile | None:
    """The file given that has the syntax of one that we would write."""
    kind = recipe.framework.files[number]
    own = [file for file in recipe.files if file.syntax == kind.syntax]
    return own[0] if own else recipe.files[0] if number == 0 else None


def _applied(text: str, changes: list[tuple[Span, str]]) -> str:
    joined: dict[tuple[int, int], str] = {}
    for span, new in changes:
        key = (span.start, span.end)
        joined[key] = joined.get(key, "") + new if span.start == span.end else new
    for (start, end), new in sorted(joined.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _replaced(file: RecipeFile, given: Given, value: Scalar) -> tuple[Span, str] | None:
    """The piece of a file that states a setting, with another value or without it."""
    if value is None:
        return _removed(file, given)
    if given.span is None:
        return None
    if file.syntax == "shell":
        around = file.text[given.span.start - 1 : given.span.start], file.text[given.span.end :][:1]
        quoted = around[0] == around[1] and around[0] in {"'", '"'}
        return given.span, str(value) if quoted else scalar_text(value, "shell")
    return given.span, _like(file.text[given.span.start : given.span.end], value, file.syntax)


def _like(old: str, value: Scalar, syntax: str) -> str:
    """A value spelled as the old one was: with quotes or without, `True` or `true`."""
    text = scalar_text(value, syntax)
    if syntax == "yaml" and isinstance(value, bool) and old[:1].isupper():
        return str(value)
    if syntax == "yaml" and isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w.-]*", value):
        quoted = old[:1] in "\"'"
        return (
            text.replace('"', old[0]) if quoted else value if value not in {"no", "yes"} else text
        )
    return text


def _removed(file: RecipeFile, given: Given) -> tuple[Span, str] | None:
    """A setting left out: deleted from a script, switched off in other files."""
    if file.syntax == "shell":
        piece = given.whole or _with_variable(file.text, given.named)
        if piece is None:
            return None
        start, end = piece.start, piece.end
        if (
            file.text[end : end + 1] in {"'", '"'}
            and file.text[start:end].count(file.text[end]) % 2
        ):
            end += 1
        before = file.text.rfind("\n", 0, start) + 1
        after = file.text.find("\n", end)
        after = len(file.text) if after < 0 else after
        rest = (file.text[before:start] + file.text[end:after]).replace("\\", "").strip()
        if not rest or rest.startswith("#"):
            return Span(before, min(after + 1, len(file.text))), ""
        return Span(start, end), ""
    if given.span is None:
        return None
    line = _own_line(file, given)
    if line is not None:
        return line, ""
    off: Scalar = False if isinstance(given.value, bool) else None
    return given.span, scalar_text(off, file.syntax)


def _own_line(file: RecipeFile, given: Given) -> Span | None:
    """The line of a setting that has one for itself."""
    if given.span is None or file.syntax == "json":
        return None
    start = file.text.rfind("\n", 0, given.span.start) + 1
    end = _line_end(file.text, given.span.end)
    before, behind = file.text[start : given.span.start], file.text[given.span.end : end]
    own = given.name.rpartition(".")[2]
    named = re.fullmatch(rf"[ \t]*(?:[\w.]*\.)?{re.escape(own)}\s*[:=]\s*", before)
    alone = not behind.strip() or behind.lstrip().startswith("#")
    return Span(start, min(end + 1, len(file.text))) if named and alone else None


def _with_variable(text: str, named: Span | None) -> Span | None:
    """A name and the variable that stands behind it."""
    behind = named and re.compile(r"[ \t]+\"?\$\{?\w+\}?\"?(?=\s|$)").match(text, named.end)
    return Span(named.start, behind.end()) if named and behind else None


def _inserted(file: RecipeFile, name: str, value: Scalar) -> tuple[Span, str] | None:
    """A new setting, where those of its kind stand."""
    if file.syntax == "shell":
        if file.end < 0:
            return None
        equals = any("=" in file.text[g.whole.start : g.whole.end] for g in file.given if g.whole)
        added = argument(name, value, equals=equals and "-" not in name)
        joined = "\n" if file.text.lstrip().startswith("--") else " \\\n    "
        return Span(file.end, file.end), f"{joined}{added}"
    return _INSERTED[file.syntax](file, name, value) if file.syntax in _INSERTED else None


def _neighbour(file: RecipeFile, name: str) -> tuple[Given, str] | None:
    """The last setting beside a path, and what is left of the path from there."""
    parts = name.split(".")
    for depth in range(len(parts) - 1, -1, -1):
        folder = ".".join(parts[:depth])
        beside = [g for g in file.given if g.span and g.name.rpartition(".")[0] == folder]
        if beside:
            return max(beside, key=lambda g: g.span.end if g.span else 0), ".".join(parts[depth:])
    return None


def _in_yaml(file: RecipeFile, name: str, value: Scalar) -> tuple[Span, str] | None:
    found = _neighbour(file, name)
    if found is None or found[0].span is None:
        return None if file.text.lstrip().startswith("{") else _section(file, name, value)
    beside, rest = found
    start = file.text.rfind("\n", 0, beside.span.start if beside.span else 0) + 1
    line = file.text[start:]
    indent = line[: len(line) - len(line.lstrip(" "))]
    if line.lstrip().startswith(("{", '"')):
        return None
    end = _line_end(file.text, beside.span.end if beside.span else 0)
    *folders, own = rest.split(".")
    lines = [f"{indent}{'  ' * i}{folder}:" for i, folder in enumerate(folders)]
    lines.append(f"{indent}{'  ' * len(folders)}{own}: {scalar_text(value, 'yaml')}")
    return Span(end, end), "".join(f"\n{each}" for each in lines)


def _section(file: RecipeFile, name: str, value: Scalar) -> tuple[Span, str]:
    """A setting of a section that a YAML file has not, at its end."""
    *folders, own = name.split(".")
    lines = [f"{'  ' * i}{folder}:" for i, folder in enumerate(folders)]
    lines.append(f"{'  ' * len(folders)}{own}: {scalar_text(value, 'yaml')}")
    end = len(file.text.rstrip())
    return Span(end, end), "".join(f"\n{each}" for each in lines)


def _in_toml(file: RecipeFile, name: str, value: Scalar) -> tuple[Span, str] | None:
    table, _, own = name.rpartition(".")
    beside = [g for g in file.given if g.span and g.name.rpartition(".")[0] == table]
    text = f"\n{own} = {scalar_text(value, 'toml')}"
    if not beside:
        end = len(file.text.rstrip("\n"))
        return Span(end, end), f"\n\n[{table}]{text}"
    end = _line_end(file.text, max(g.span.end for g in beside if g.span))
    return Span(end, end), text


def _in_json(file: RecipeFile, name: str, value: Scalar) -> tuple[Span, str] | None:
    found = _neighbour(file, name)
    if found is None or found[0].span is None:
        return None
    end = found[0].span.end
    start = file.text.rfind("\n", 0, found[0].span.start) + 1
    line = file.text[start:]
    indent = line[: len(line) - len(line.lstrip())]
    *folders, own = found[1].split(".")
    opened = "".join(f'"{folder}": {{' for folder in folders)
    added = f'{opened}"{own}": {scalar_text(value, "json")}{"}" * len(folders)}'
    return Span(end, end), f",\n{indent}{added}"


def _in_python(file: RecipeFile, name: str, value: Scalar) -> tuple[Span, str] | None:
    """A further assignment behind the last one of the same configuration."""
    pattern = re.compile(r"^([ \t]*)(\w+)\.((?:\w+\.)*\w+)[ \t]*=(?!=)", re.MULTILINE)
    stated = {g.line for g in file.given if g.span}
    lines = [(m, file.text.count("\n", 0, m.start(2)) + 1) for m in pattern.finditer(file.text)]
    own = [m for m, line in lines if line in stated]
    if not own:
        return None
    folder = name.rpartition(".")[0]
    beside = [m for m in own if m.group(3).rpartition(".")[0] == folder] or own
    end = _line_end(file.text, beside[-1].end())
    added = f"\n{beside[-1].group(1)}{beside[-1].group(2)}.{name} = {scalar_text(value, 'python')}"
    return Span(end, end), added


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


_INSERTED = {"yaml": _in_yaml, "toml": _in_toml, "json": _in_json, "python": _in_python}
