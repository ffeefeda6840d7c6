"""Pickles of objects whose classes are not here, as Python's pickle would write them.

Protocol 2, which all versions of torch read, also with `weights_only`.

Source: CPython, `Lib/pickle.py` and `Lib/pickletools.py`.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import Any, TypeAlias

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


_Base: Any = pickle._Pickler  # noqa: SLF001  the one in C cannot be told how to write a record


class _Pickler(_Base):  # type: ignore[misc, unused-ignore]
    """Python's own, which writes the records above as what they stand for."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=2)
        self._names: dict[Global, Global] = {}
        """One object for each name: what comes again is written once."""

    def persistent_id(self, value: Value) -> Value:
        return value.key if isinstance(value, Stored) else None

    def save(self, value: Value, save_persistent_id: bool = True) -> None:
        """Write one value; a record of this module by the name of its class."""
        match value:
            case Global():
                name = self._names.setdefault(value, value)
                if name is not value:
                    super().save(name)
                else:
                    self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode())
                    self.memoize(name)
            case Called(function, arguments):
                self.save(function)
                self.save(arguments)
                self.write(pickle.REDUCE)
            case Made(kind, state):
                self.save(kind)
                self.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ)
                self.save(state)
                self.write(pickle.BUILD)
            case _:
                super().save(value, save_persistent_id)


def pickled(value: Value) -> bytes:
    """The pickle of a value; texts and names that come again are written once."""
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()
