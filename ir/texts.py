"""Text that a file, a page or a service can hold, whatever stood in a model or a file's name."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["listed", "visible"]


def visible(text: str) -> str:
    r"""Text in which characters that cannot be seen are written as their codes.

    Bytes of a file's name that are no UTF-8 are among them.

    >>> visible("a\u202eb\n"), visible("net\udcff")
    ('a\\u202eb\\n', 'net\\udcff')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def listed(items: Sequence[str], most: int = 8) -> str:
    """The first items, and how many more there are.

    >>> listed(["a", "b", "c", "d", "e"], 3), listed(["a"])
    ('a, b, c and 2 more', 'a')
    """
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest
