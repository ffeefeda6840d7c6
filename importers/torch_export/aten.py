"""The table of PyTorch's operators: what each of them is in operators of ONNX.

A line has the operator's schema (name, overloads in braces, parameters) and what writes it.
Operators that write in place are those that do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from importers.torch_export.aten_activations import ACTIVATIONS
from importers.torch_export.aten_backward import BACKWARD
from importers.torch_export.aten_constants import CONSTANTS
from importers.torch_export.aten_images import IMAGES
from importers.torch_export.aten_indexing import INDEXING
from importers.torch_export.aten_moves import MOVES
from importers.torch_export.aten_norms import NORMS
from importers.torch_export.aten_pointwise import POINTWISE
from importers.torch_export.aten_products import PRODUCTS
from importers.torch_export.aten_reductions import REDUCTIONS
from importers.torch_export.call import Converter

_SCHEMA = re.compile(r"(?:(\w+)::)?(\w+)(?:\.(\{[\w,]*\}|\w+))?\(([\w, ]*)\)")


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of an operator."""

    target: str
    """Namespace, name and overload."""
    parameters: tuple[str, ...]
    convert: Converter


def _entries() -> Iterator[Entry]:
    for table in (
        POINTWISE, ACTIVATIONS, MOVES, REDUCTIONS, NORMS, PRODUCTS, INDEXING, IMAGES, CONSTANTS,
        BACKWARD,
    ):  # fmt: skip
        for schema, convert in table.items():
            match = _SCHEMA.fullmatch(schema)
            if match is None:
                raise ValueError(f"no schema: {schema}")
            space, name, overloads, parameters = match.groups()
            names = tuple(p.strip() for p in parameters.split(",") if p.strip())
            for overload in (overloads or "default").strip("{}").split(","):
                yield Entry(f"{space or 'aten'}.{name}.{overload or 'default'}", names, convert)


@cache
def table() -> Mapping[str, Entry]:
    """All entries by target."""
    return MappingProxyType({entry.target: entry for entry in _entries()})


def entry_of(target: str) -> Entry | None:
    """The entry of an operator, in place or not; None if there is none."""
    found = table().get(target)
    if found is not None:
        return found
    space, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if not name.endswith("_") or name.endswith("__"):
        return None
    return table().get(f"{space}.{name[:-1]}.{overload or 'default'}")
