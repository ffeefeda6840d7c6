"""One call of an operator on torch tensors: DTensors, or what one device has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ir.graph import Op

Int: TypeAlias = int
"""`int` where a method of that name hides it."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, its operands, and what its results look like."""

    op: Op
    operands: tuple[Any, ...]
    """None for an absent one."""
    result_dims: tuple[tuple[Int, ...], ...]
    """Of whole tensors where operands are DTensors, else of the device's part."""
    result_dtypes: tuple[str, ...]
    """In which the results are computed."""

    def __getitem__(self, index: Int) -> Any:
        found = self.operands[index]
        if found is None:
            raise LookupError(f"operand {index} of {self.op.name} is absent")
        return found

    def has(self, index: Int) -> bool:
        return index < len(self.operands) and self.operands[index] is not None

    def int(self, key: str, default: Int = 0) -> Int:
        return int(str(self.op.attributes.get(key, default)))

    def float(self, key: str, default: float) -> float:
        return float(str(self.op.attributes.get(key, default)))

    def ints(self, key: str, default: tuple[Int, ...] = ()) -> tuple[Int, ...]:
        value = self.op.attributes.get(key, default)
        return tuple(int(v) for v in value) if isinstance(value, tuple) else (int(str(value)),)


Kernel: TypeAlias = Callable[[Call], list[Any]]
"""A kind of operator in torch."""
