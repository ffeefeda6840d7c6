"""One error for every way in: what is wrong, where, and how to mend it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

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


class UnsupportedError(Exception):
    """A form of an operation that operators of the catalogue do not have."""


MISFITS = (ArithmeticError, LookupError, ValueError)
"""What comes of operands that are not those of the schema: their number, ranks or sizes."""


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


def unknown_dimension(name: str, shown: Sequence[str]) -> ModelError:
    """The error for a binding of what is no open dimension, with those that there are."""
    known = f"its dynamic dimensions are {', '.join(shown[:_MOST_NAMED])}"
    fixed = "all its dimensions are fixed; leave --bind out"
    return ModelError(
        f"the model has no dynamic dimension {name!r}", "--bind", known if shown else fixed
    )


def check_bound(name: str, size: int, most: int, least: int = 1, ending: str = "") -> None:
    """Refuse a size that a dimension cannot have.

    Args:
        name: of the dimension.
        size: what it is bound to.
        most: its largest size.
        least: its smallest size.
        ending: why it has these bounds.

    Raises:
        ModelError: the size is beyond them.
    """
    if not least <= size <= most:
        fix = f"bind it to a number from {least} to {most}{ending}"
        raise ModelError(f"dimension {name!r} is bound to {size}", "--bind", fix)


def bind_option(sizes: Mapping[str, int | str]) -> str:
    """The option that binds these sizes, as a shell takes it.

    >>> bind_option({"batch": 16, "x.0": 8})
    '--bind batch=16,x.0=8'
    """
    return "--bind " + shlex.quote(",".join(f"{name}={size}" for name, size in sizes.items()))
