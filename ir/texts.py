"""Text that a file, a page or a service can hold, whatever stood in a model or a file's name."""

from __future__ import annotations

__all__ = ["visible"]


def visible(text: str) -> str:
    r"""Text in which characters that cannot be seen are written as their codes.

    Bytes of a file's name that are no UTF-8 are among them.

    >>> visible("a\u202eb\n"), visible("net\udcff")
    ('a\\u202eb\\n', 'net\\udcff')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
