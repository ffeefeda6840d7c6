"""The table of PyTorch's operators: what each of them is in operators of ONNX.

A line has the operator's schema (name, overloads in braces, parameters) and what writes it.
Operators that write in place are those that do not.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from importers.traced.call import Converter
from importers.traced.table import Entry, entries


@cache
def table() -> Mapping[str, Entry]:
    """All entries by target: namespace, name and overload."""
    lines = entries(
        (POINTWISE, ACTIVATIONS, MOVES, REDUCTIONS, NORMS, PRODUCTS, INDEXING, IMAGES, CONSTANTS,
         BACKWARD)
    )  # fmt: skip
    return MappingProxyType(
        {
            f"{space or 'aten'}.{name}.{overload or 'default'}": entry
            for space, name, overloads, entry in lines
            for overload in overloads
        }
    )


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


def aten(target: str) -> Converter:
    """What writes an operator of `torch.ops.aten`, for tables of others; its arguments go by their
    names there.
    """
    entry = entry_of(f"aten.{target}" if "." in target else f"aten.{target}.default")
    if entry is None:
        raise ValueError(f"PyTorch's table has no {target}")
    return entry.convert
