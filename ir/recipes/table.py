"""The settings of a framework as a table, and what follows from it: reading and writing.

Both go through the same entries, in their order. An entry says which quantity a setting states,
how it is spelled, and what the release takes where it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Any

import data
from ir.recipes.entries import Case, Condition, Entry
from ir.recipes.forms import FORMS, Scalar
from ir.recipes.quantities import Quantities, Value

__all__ = ["FileKind", "Framework", "framework", "framework_names", "readable_names"]

_FLAGS = (FORMS["flag"], FORMS["absent"])
"""What is left out where it is off."""
NOTHING: Mapping[str, Scalar] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FileKind:
    """One file of a recipe, as we write it."""

    name: str
    syntax: str
    launch: str
    """The launcher of a shell script."""
    script: str
    takes: str
    """What the script is given before the settings."""
    equals: bool
    """Whether arguments are `name=value`, not `--name value`."""
    exports: tuple[tuple[str, tuple[Condition, ...]], ...]
    """What a script sets in the environment, and in which recipes it does not."""
    imports: tuple[str, ...]
    """Of a Python file."""
    returns: str
    """What a function of a Python file returns."""
    bases: Mapping[str, str]
    """Configurations of the framework's own that a Python file begins with, by model."""


@dataclass(frozen=True, slots=True)
class Framework:
    """What is known of the settings of one framework in one release."""

    name: str
    title: str
    release: str
    source: str
    profile: str
    """The software whose constants price it."""
    reads_only: bool
    extends: str
    """The framework whose settings it takes too; empty if none."""
    yields: bool
    """Whether files are of another framework where they have a mark of one, under which it runs."""
    files: tuple[FileKind, ...]
    marks: tuple[str, ...]
    """Settings by which its files are known."""
    entries: tuple[Entry, ...]
    noted: Mapping[str, str]
    """Settings that are known and not priced, and what they do; empty where that is no matter."""
    neutral: re.Pattern[str]
    """Settings that are of no layout."""
    avoids: tuple[tuple[tuple[Condition, ...], str], ...]
    """What it refuses or advises against, each with the sentence that says so."""

    def faults(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """What the framework refuses or advises against in a recipe, a sentence each."""
        return tuple(
            text
            for conditions, text in self.avoids
            if all(each.holds(values.get(each.quantity)) for each in conditions)
        )

    def read(
        self, given: Mapping[str, Scalar], lines: Mapping[str, str], known: Quantities
    ) -> None:
        """Take what settings say, and what the release takes where they are silent.

        Args:
            given: settings by name.
            lines: where each stands, for messages.
            known: what is known before, which stands; it is filled.
        """
        unread: dict[str, bool] = {}
        for number, entry in enumerate(self.entries):
            if not entry.applies(known.values()):
                continue
            value, strange = entry.read(given)
            if strange:
                unread.setdefault(strange, True)
            if value is not None:
                stated = [name for name in sorted(entry.settings) if name in given]
                unread |= dict.fromkeys(stated, False)
                if not (entry.fallback and entry.quantity in known.known):
                    known.say(entry.quantity, value, lines.get(stated[0], stated[0]))
                    _follow(entry.quantity, value, known)
            elif (
                entry.quantity not in known.known
                and not entry.spelled_as(given, entry.rest)
                and not self._stated_later(number, given)
            ):
                default = known.values().get(entry.same) if entry.same else entry.default
                if default is not None:
                    known.suppose(entry.quantity, default, f"default of {self.title}")
        known.contradictions.extend(
            _strange(lines.get(name, name), given[name])
            for name, nobody in unread.items()
            if nobody
        )

    def _stated_later(self, number: int, given: Mapping[str, Scalar]) -> bool:
        """Whether a later entry states the quantity of one whose settings are left out."""
        name = self.entries[number].quantity
        return any(
            each.quantity == name and each.read(given)[0] is not None
            for each in self.entries[number + 1 :]
        )

    def written(
        self, values: Mapping[str, Value], given: Mapping[str, Scalar] = NOTHING
    ) -> dict[int, dict[str, Scalar]]:
        """The settings of every file.

        Args:
            values: quantities of a recipe.
            given: settings of a file that is changed, which stay what states a quantity.
        """
        preferred = frozenset(given)
        files: dict[int, dict[str, Scalar]] = {}
        for entry in self._chosen(values, preferred):
            value = values.get(entry.quantity)
            if value is None or not (entry.at or entry.cases):
                continue
            stated = bool(entry.settings & preferred)
            if value == self._silent(entry, values) and not entry.always and not stated:
                continue
            settings = entry.write(value, given)
            for name, scalar in (settings or {}).items():
                if scalar is not None and not (scalar is False and entry.form in _FLAGS):
                    files.setdefault(entry.file, {}).setdefault(name, scalar)
        return files

    def _chosen(self, values: Mapping[str, Value], preferred: frozenset[str]) -> Iterator[Entry]:
        """The entries that state quantities: those that a file has, else those that we write."""
        own = [entry for entry in self.entries if entry.applies(values)]
        stated = {entry.quantity for entry in own if entry.settings & preferred}
        for entry in own:
            if (entry.quantity in stated and entry.settings & preferred) or (
                entry.quantity not in stated and entry.writes
            ):
                yield entry

    def _silent(self, entry: Entry, values: Mapping[str, Value]) -> Value | None:
        """What is taken where nothing is said of a quantity."""
        for each in self.entries:
            if each.quantity == entry.quantity and each.applies(values):
                if each.same:
                    return values.get(each.same)
                if each.default is not None:
                    return each.default
        return None

    def reads(self, setting: str) -> bool:
        """Whether some entry reads it."""
        return any(setting in entry.settings for entry in self.entries)


def _strange(where: str, value: Scalar) -> str:
    """What is said of a setting whose value is of no quantity."""
    if value is True or value == "":
        return f"{where} has no value: it is not taken"
    return f"{where} is {value!r}, of which nothing is known"


def _follow(name: str, value: Value, known: Quantities) -> None:
    """The chunks of a stage, from the layers of every chunk."""
    stages = known.number("pp")
    if name == "chunk_layers" and isinstance(value, tuple) and stages and len(value) % stages == 0:
        known.say("vpp", len(value) / stages, "the layers of every chunk")


def framework_names() -> tuple[str, ...]:
    """The frameworks whose files are written."""
    return tuple(name for name in readable_names() if not framework(name).reads_only)


def readable_names() -> tuple[str, ...]:
    """The frameworks whose files are read."""
    return tuple(name for name in data.names("recipes") if name != "models")


@cache
def framework(name: str) -> Framework:
    """The table of one framework of `readable_names`."""
    found = data.read_yaml("recipes", f"{name}.yaml")
    own = tuple(_entry(each) for each in found["settings"])
    noted, neutral = dict(found.get("noted", {})), list(found.get("neutral", []))
    avoids = tuple((_conditions(each["when"]), each["why"]) for each in found.get("avoids", ()))
    if "extends" in found:
        base = framework(found["extends"])
        instead = {each["instead"] for each in found["settings"] if "instead" in each}
        kept = tuple(entry for entry in base.entries if entry.quantity not in instead)
        both = (*own, *kept)
        own = tuple(sorted(both, key=lambda entry: entry.launch))
        noted = dict(base.noted) | noted
        neutral.append(base.neutral.pattern)
        avoids += base.avoids
    return Framework(
        name=name,
        title=found["title"],
        release=found["release"],
        source=found["source"],
        profile=found["profile"],
        reads_only=found.get("reads_only", False),
        extends=found.get("extends", ""),
        yields=found.get("yields", False),
        files=tuple(_file(each) for each in found["files"]),
        marks=tuple(found["marks"]),
        entries=own,
        noted=noted,
        neutral=re.compile("|".join(f"(?:{p})" for p in neutral) or "(?!)"),
        avoids=avoids,
    )


def _file(found: Mapping[str, Any]) -> FileKind:
    return FileKind(
        name=found["name"],
        syntax=found["syntax"],
        launch=found.get("launch", ""),
        script=found.get("script", ""),
        takes=found.get("takes", ""),
        equals=found.get("style") == "equals",
        exports=tuple(
            (each["set"], _conditions(each.get("unless", {}))) for each in found.get("exports", ())
        ),
        imports=tuple(found.get("imports", ())),
        returns=found.get("returns", ""),
        bases=MappingProxyType(dict(found.get("bases", {}))),
    )


def _entry(found: Mapping[str, Any]) -> Entry:
    at = found.get("at", "") if "cases" not in found else ""
    cases = tuple(_case(each) for each in found.get("cases", ()))
    return Entry(
        quantity=found["is"],
        at=at,
        form=FORMS[found.get("form", "number")],
        cases=cases,
        default=_value(found.get("default")),
        same=found.get("same", ""),
        when=_conditions(found.get("when", {})),
        unless=_conditions(found.get("unless", {})),
        unset=tuple(found.get("unset", ())),
        rest=tuple(found.get("rest", ())),
        fallback=found.get("fallback", False),
        writes=found.get("writes", True),
        always=found.get("always", False),
        file=found.get("file", 0),
        launch=found.get("launch", False),
        settings=frozenset(_read(found, at, cases)),
    )


def _read(found: Mapping[str, Any], at: str, cases: tuple[Case, ...]) -> Iterator[str]:
    if not found.get("reads", True):
        return
    if at:
        yield at
    for case in cases:
        yield from case.settings


def _case(found: Mapping[str, Any]) -> Case:
    value = _value(found["is"])
    assert value is not None
    return Case(value, found["at"], found.get("reads", False))


def _conditions(found: Mapping[str, Any]) -> tuple[Condition, ...]:
    return tuple(
        Condition(name, tuple(map(str, values if isinstance(values, list) else [values])))
        for name, values in found.items()
    )


def _value(found: object) -> Value | None:
    if found is None:
        return None
    if isinstance(found, int | float):
        return Fraction(found)
    return str(found)
