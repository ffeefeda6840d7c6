"""What is wrong with a checkpoint, or with moving it: what, where, and how to mend it."""

from __future__ import annotations

_MOST_SHOWN = 5
_LONGEST = 600


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, written or moved as asked."""

    def __init__(self, what: str, at: str = "", fix: str = "") -> None:
        lines = [what[:_LONGEST]]
        lines += [f"  at:  {at[:_LONGEST]}"] if at else []
        lines += [f"  fix: {fix}"] if fix else []
        super().__init__("\n".join(lines))


def some(names: list[str]) -> str:
    """A few names and how many there are besides.

    >>> some(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(repr(name) for name in names[:_MOST_SHOWN])
    more = len(names) - _MOST_SHOWN
    return shown + (f" and {more} more" if more > 0 else "")
