"""Tables of operators: a line has what is called with its arguments, and what writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from importers.traced.call import Argument, Converter

_LINE = re.compile(r"(?:(\w+)::)?(\w+)(?:\.(\{[\w,]*\}|\w+))?\(([\w, ]*)\)")


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of an operator."""

    names: Mapping[str, str]
    """Its arguments in order, and what the converter calls each."""
    convert: Converter

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.names)


def entries(
    tables: Iterable[Mapping[str, Converter]],
) -> Iterator[tuple[str, str, tuple[str, ...], Entry]]:
    """Namespace, name and overloads of every line, with its entry.

    Args:
        tables: what writes an operator by `space::name.{overload}(argument, argument as name)`.
    """
    for line, convert in ((line, c) for table in tables for line, c in table.items()):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"no line: {line}")
        pairs = [p.split(" as ") for p in match[4].split(",") if p.strip()]
        names = {pair[0].strip(): pair[-1].strip() for pair in pairs}
        overloads = tuple((match[3] or "default").strip("{}").split(","))
        yield match[1] or "", match[2], overloads, Entry(MappingProxyType(names), convert)


def arguments_of(
    entry: Entry | None, positional: Sequence[Argument], named: Mapping[str, Argument]
) -> Mapping[str, Argument]:
    """Arguments of a call by the names that its converter uses; numbered where there is none."""
    if entry is None:
        return MappingProxyType({f"#{i}": v for i, v in enumerate(positional)} | dict(named))
    given = {entry.names.get(key, key): value for key, value in named.items()}
    placed = dict(zip(entry.names.values(), positional, strict=False))
    return MappingProxyType(placed | {k: v for k, v in given.items() if k not in placed})
