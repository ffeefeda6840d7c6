"""The type in which operands of several types meet."""

from __future__ import annotations

from collections.abc import Sequence

from importers.traced.call import Argument
from ir.dtypes import dtype_bits
from ir.graph import Tensor


def promoted(values: Sequence[Argument]) -> str:
    """Element type in which operands of several types are compared.

    Tensors with dimensions come before those without, and these before plain numbers, unless the
    latter are of a higher category: flag, integer, floating. Source: PyTorch, type promotion.
    """
    tensors = [v for v in values if isinstance(v, Tensor)]
    groups = [
        [t.dtype for t in tensors if t.dims],
        [t.dtype for t in tensors if not t.dims],
        ["bool" if isinstance(v, bool) else "int64" if isinstance(v, int) else "float32"
         for v in values if isinstance(v, bool | int | float)],
    ]  # fmt: skip
    best = ""
    for group in groups:
        found = max(group, key=_order, default="")
        if not best or (found and _category(found) > _category(best)):
            best = found
    return best or "float32"


def _category(dtype: str) -> int:
    return 0 if dtype == "bool" else 2 if "float" in dtype else 3 if "complex" in dtype else 1


def _order(dtype: str) -> tuple[int, int]:
    return _category(dtype), dtype_bits(dtype)
