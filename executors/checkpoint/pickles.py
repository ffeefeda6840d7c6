"""Pickles of objects whose classes are not here, as Python's pickle would write them.

Protocol 2, which all versions of torch read, also with `weights_only`.

Source: CPython, `Lib/pickle.py` and `Lib/pickletools.py`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = (
    "bool | int | str | tuple[Value, ...] | list[Value] | dict[Value, Value] "
    "| Global | Called | Made | Stored | None"
)


@dataclass(frozen=True, slots=True)
class Global:
    """A class or a function, by name."""

    module: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Called:
    """What a function returns."""

    function: Global
    arguments: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """An object without its initialiser, given its state."""

    kind: Global
    state: Value


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Something that lies outside of the pickle, by what stands for it."""

    key: Value


def pickled(value: Value) -> bytes:
    """The pickle of a value; texts and names that come again are written once."""
    known: dict[str | Global, int] = {}
    return b"\x80\x02" + b"".join(_parts(value, known)) + pickle.STOP


def _parts(value: Value, known: dict[str | Global, int]) -> Iterator[bytes]:  # noqa: C901
    match value:
        case None:
            yield pickle.NONE
        case bool():
            yield pickle.NEWTRUE if value else pickle.NEWFALSE
        case int():
            yield _integer(value)
        case str() | Global():
            yield _remembered(value, known)
        case tuple() | list():
            yield from _sequence(value, known)
        case dict():
            yield pickle.EMPTY_DICT + pickle.MARK
            for pair in value.items():
                for each in pair:
                    yield from _parts(each, known)
            yield pickle.SETITEMS
        case Called(function, arguments):
            yield from (*_parts(function, known), *_parts(arguments, known), pickle.REDUCE)
        case Made(kind, state):
            yield from (*_parts(kind, known), pickle.EMPTY_TUPLE, pickle.NEWOBJ)
            yield from (*_parts(state, known), pickle.BUILD)
        case Stored(key):
            yield from (*_parts(key, known), pickle.BINPERSID)


def _sequence(
    value: tuple[Value, ...] | list[Value], known: dict[str | Global, int]
) -> Iterator[bytes]:
    is_list = isinstance(value, list)
    yield pickle.EMPTY_LIST + pickle.MARK if is_list else pickle.MARK
    for each in value:
        yield from _parts(each, known)
    yield pickle.APPENDS if is_list else pickle.TUPLE


def _integer(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return pickle.BININT + value.to_bytes(4, "little", signed=True)
    text = pickle.encode_long(value)
    return pickle.LONG1 + bytes([len(text)]) + text


def _remembered(value: str | Global, known: dict[str | Global, int]) -> bytes:
    if value in known:
        return pickle.LONG_BINGET + known[value].to_bytes(4, "little")
    known[value] = len(known)
    put = pickle.LONG_BINPUT + known[value].to_bytes(4, "little")
    if isinstance(value, Global):
        return pickle.GLOBAL + f"{value.module}\n{value.name}\n".encode() + put
    text = value.encode()
    return pickle.BINUNICODE + len(text).to_bytes(4, "little") + text + put
