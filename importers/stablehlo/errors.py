"""What converters raise where the catalogue has no equal."""

from __future__ import annotations


class UnsupportedError(Exception):
    """A form of an operation that operators of the catalogue do not have."""
