"""Values of a strategy file in JSON, each of which knows its place in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from exporters.errors import StrategyFileError
from ir.violations import Violation

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}


def parsed(text: str, fix: str) -> Any:
    """What a text in JSON holds.

    Raises:
        StrategyFileError: it is no JSON, or names a key twice; `fix` says how to mend it.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise StrategyFileError(Violation(f"not JSON: {error.msg}", place, fix)) from error
    except RecursionError as error:
        raise StrategyFileError(Violation("nested too deeply", "the file", fix)) from error
    except StrategyFileError:
        raise
    except ValueError as error:  # an integer of more digits than Python converts
        raise StrategyFileError(Violation("a number is too long", "the file", fix)) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise StrategyFileError(Violation("a key occurs twice", f"key {twice!r}", "keep one"))
    return content


class Node:
    """A value of the file that knows its place."""

    __slots__ = ("_fix", "_place", "_value")

    def __init__(self, value: Any, place: str, fix: str) -> None:
        self._value = value
        self._place = place
        self._fix = fix

    def fault(self, what: str) -> StrategyFileError:
        """The error for what is wrong here."""
        return StrategyFileError(Violation(what, self._place, self._fix))

    def _kind(self) -> str:
        return _KINDS.get(type(self._value), "a number")

    def items(self) -> list[tuple[str, Node]]:
        if not isinstance(self._value, dict):
            raise self.fault(f"{self._kind()} where an object is due")
        return [
            (key, Node(each, f"{self._place}, key {key!r}", self._fix))
            for key, each in self._value.items()
        ]

    def has(self, key: str) -> bool:
        return isinstance(self._value, dict) and key in self._value

    def at(self, key: str) -> Node:
        if not isinstance(self._value, dict):
            raise self.fault(f"{self._kind()} where an object is due")
        if key not in self._value:
            raise self.fault(f"key {key!r} is missing")
        return Node(self._value[key], f"{self._place}, key {key!r}", self._fix)

    def elements(self) -> Iterator[Node]:
        if not isinstance(self._value, list):
            raise self.fault(f"{self._kind()} where a list is due")
        for index, each in enumerate(self._value):
            yield Node(each, f"{self._place}, index {index}", self._fix)

    def integer(self) -> int:
        if type(self._value) is not int:
            raise self.fault(f"{self._kind()} where an integer is due")
        return self._value

    def integers(self) -> tuple[int, ...]:
        if not isinstance(self._value, list) or any(type(each) is not int for each in self._value):
            raise self.fault("something else than a list of integers")
        return tuple(self._value)
