"""One error for every way in: what is wrong, where, and how to mend it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

EXAMPLE_SIZE = 16
"""What a message gives an open dimension of which nothing is known."""
_MOST_NAMED = 20


class ModelError(ValueError):
    """A model that cannot be read; the message has up to three lines: what, `at:` where, `fix:`
    how to mend it.
    """

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        lines = [what]
        if where:
            lines.append(f"  at:  {where}")
        if fix:
            lines.append(f"  fix: {fix}")
        super().__init__("\n".join(lines))


class UnboundError(ModelError):
    """Dimensions that a file leaves open and that nobody gave a size: all of them at once."""

    def __init__(
        self, names: Iterable[str], where: str, sizes: Mapping[str, int] | None = None
    ) -> None:
        """Args: names of the dimensions, where they stand, and sizes that the file suggests."""
        self.sizes = {name: (sizes or {}).get(name, EXAMPLE_SIZE) for name in names}
        listed = [repr(name) for name in self.sizes][:_MOST_NAMED]
        more = len(self.sizes) - len(listed)
        shown = ", ".join(listed) + (f" and {more} others" if more else "")
        have = f"dimension {shown} has" if len(self.sizes) == 1 else f"dimensions {shown} have"
        given = bind_option(self.sizes)
        super().__init__(f"{have} no value", where, f"give your sizes, such as {given}")


def bind_option(sizes: Mapping[str, int | str]) -> str:
    """The option that binds these sizes, as a shell takes it.

    >>> bind_option({"batch": 16, "x.0": 8})
    '--bind batch=16,x.0=8'
    """
    return "--bind " + shlex.quote(",".join(f"{name}={size}" for name, size in sizes.items()))
