"""The table of operations: what tracers call, and the function that writes it in operators of ONNX.

A function is entered once, with what each front end calls it. A line is one signature: names with
spaces between them, each with its overloads in braces, and the arguments in their order, `as` what
the function calls them and `=` the number that one has where it is left out. Lines are separated by
semicolons:

    mm bmm(self, mat2); matmul(self, other as mat2); leaky_relu(self, negative_slope as alpha=0.01)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from importers.traced.call import Argument, Converter

_LINE = re.compile(r"([\w.:{}, ]+?)\(([\w, =.-]*)\)")
_NAME = re.compile(r"(?:(\w+)::)?(\w+)(?:\.(\{[\w,]*\}|\w+))?")
_Converter = TypeVar("_Converter", bound=Converter)


class FrontEnd(StrEnum):
    """Who traced a program."""

    ATEN = "aten"
    """PyTorch, by its schemas; `space::` stands before names of other namespaces than `aten`."""
    MINDIR = "mindir"
    """MindSpore, by its primitives."""
    STABLEHLO = "stablehlo"
    """JAX; names have their dialect in front: `chlo.erf`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a call."""

    names: Mapping[str, str]
    """Its arguments in order, and what the converter calls each."""
    convert: Converter
    defaults: Mapping[str, float] = field(default_factory=dict)
    """Numbers of arguments that are left out, by the names that the converter uses."""

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.names)


_TABLES: dict[FrontEnd, dict[str, Entry]] = {each: {} for each in FrontEnd}


def table(front_end: FrontEnd) -> Mapping[str, Entry]:
    """Entries by target, as far as the modules that enter them are read."""
    return MappingProxyType(_TABLES[front_end])


def spelled(**lines: str) -> Callable[[_Converter], _Converter]:
    """Enter a function with the lines of each front end, by its name: `spelled(aten="t(self)")`."""

    def entered(convert: _Converter) -> _Converter:
        for name, text in lines.items():
            enter(FrontEnd(name), entries_of(FrontEnd(name), text, convert))
        return convert

    return entered


def enter(front_end: FrontEnd, entries: Mapping[str, Entry]) -> None:
    """Enter calls of a front end.

    Raises:
        ValueError: one of them is there already.
    """
    found = _TABLES[front_end]
    twice = found.keys() & entries.keys()
    if twice:
        raise ValueError(f"{front_end} has {', '.join(sorted(twice))} twice")
    found.update(entries)


def entries_of(
    front_end: FrontEnd, lines: str, convert: Converter, arguments: str = ""
) -> dict[str, Entry]:
    """The calls that lines name, by target.

    Args:
        front_end: whose names they are.
        lines: as described above.
        convert: what writes these calls.
        arguments: of a line that has none.

    Raises:
        ValueError: a line that is none.
    """
    found: dict[str, Entry] = {}
    for line in filter(None, map(str.strip, lines.split(";"))):
        match = _LINE.fullmatch(line if line.endswith(")") else f"{line}({arguments})")
        if match is None:
            raise ValueError(f"no line: {line}")
        entry = _entry(match[2], convert)
        found.update(dict.fromkeys(_targets(front_end, match[1]), entry))
    return found


def _entry(arguments: str, convert: Converter) -> Entry:
    names: dict[str, str] = {}
    defaults: dict[str, float] = {}
    for each in filter(None, map(str.strip, arguments.split(","))):
        text, _, default = each.partition("=")
        told, _, used = text.partition(" as ")
        names[told.strip()] = used.strip() or told.strip()
        if default:
            defaults[names[told.strip()]] = float(default)
    return Entry(MappingProxyType(names), convert, MappingProxyType(defaults))


def _targets(front_end: FrontEnd, names: str) -> Iterator[str]:
    for name in names.split():
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"no name: {name}")
        for overload in (match[3] or "").strip("{}").split(","):
            if front_end is FrontEnd.ATEN:
                yield f"{match[1] or 'aten'}.{match[2]}.{overload or 'default'}"
            else:
                yield f"{match[2]}.{overload}" if overload else match[2]


def arguments_of(
    entry: Entry | None, positional: Sequence[Argument], named: Mapping[str, Argument]
) -> Mapping[str, Argument]:
    """Arguments of a call by the names that its converter uses; numbered where there is none."""
    if entry is None:
        return MappingProxyType({f"#{i}": v for i, v in enumerate(positional)} | dict(named))
    given = {entry.names.get(key, key): value for key, value in named.items()}
    placed = dict(zip(entry.names.values(), positional, strict=False))
    told = placed | {k: v for k, v in given.items() if k not in placed}
    left = {k: v for k, v in entry.defaults.items() if told.get(k) is None}
    return MappingProxyType(told | left)
