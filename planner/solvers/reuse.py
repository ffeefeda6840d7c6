"""What one pass made, kept for the next one: most passes under prices change little."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Reuse:
    """Values by key, of this pass and of the one before it.

    A value under the identity of an array must hold that array: so that no other gets its identity.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, Any] = {}
        self._now: dict[Hashable, Any] = {}

    def begin(self) -> None:
        """Begin a pass; what the last one did not use is forgotten."""
        self._last, self._now = self._now, {}

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of this key, made if neither pass has made it."""
        found: T | None = self._now.get(key)
        if found is None:
            found = self._last.get(key)
            self._now[key] = found = make() if found is None else found
        return found
