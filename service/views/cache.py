"""Views that were made already: plans never change, so neither do their views."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

MOST_PLANS = 4
"""Read plans that are kept: one of 6,000 operators takes some 50 MB."""
MOST_MACHINES = 32
MOST_VIEWS_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Answer:
    """A view as it is sent."""

    body: bytes
    tag: str
    """Equal for equal bodies."""


def body_of(view: Any) -> bytes:
    """The bytes of a view."""
    return json.dumps(view, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def answer(body: bytes) -> Answer:
    """What is sent of these bytes."""
    return Answer(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


class Kept(Generic[_T]):
    """Values by key; the one used longest ago goes first. Safe for threads: each is made once."""

    def __init__(self, most: float, size: Callable[[_T], float] = lambda _: 1.0) -> None:
        self._most, self._size = most, size
        self._values: OrderedDict[Hashable, _T] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The value of a key."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                if key in self._values:
                    return self._values[key]
            try:
                value = make()
            finally:
                with self._lock:
                    self._making.pop(key, None)
            with self._lock:
                self._values[key] = value
                while len(self._values) > 1 and self._total() > self._most:
                    self._values.popitem(last=False)
        return value

    def _total(self) -> float:
        return sum(self._size(value) for value in self._values.values())


class ViewCache:
    """Read plans and their views, by the plan's id; uploaded machines by theirs."""

    def __init__(self) -> None:
        self.plans: Kept[Any] = Kept(MOST_PLANS)
        self.machines: Kept[Any] = Kept(MOST_MACHINES)
        self.views: Kept[Answer] = Kept(MOST_VIEWS_BYTES, lambda a: len(a.body))
        self.pricing = threading.Lock()
        """Held by views that price a plan anew: they compute for seconds, so one runs at a time."""
