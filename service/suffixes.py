"""Suffixes of exported files, by format."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from exporters.formats import Format

SUFFIXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mindspore": (".ckpt", ".json"),
        "mindspore-apply": (".py",),
        "mindspore-groups": (".pb",),
        "megatron": (".txt",),
        "table": (".csv",),
        "html": (".html",),
    }
)
"""Suffixes of formats that take any; the first is the usual one."""


def suffixes(form: Format) -> tuple[str, ...]:
    """Forms of a file, the usual one first."""
    return form.suffixes or SUFFIXES.get(form.name, ("",))
