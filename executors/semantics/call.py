"""One call of an operator on arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from executors.placement import Array
from ir.graph import Op

Int: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, its operands and the dims of its results, all of one device."""

    op: Op
    operands: tuple[Array | None, ...]
    result_dims: tuple[tuple[Int, ...], ...]
    result_dtypes: tuple[str, ...] = ()
    """In which the results are computed."""

    def __getitem__(self, index: Int) -> Array:
        found = self.operands[index]
        if found is None:
            raise IndexError(f"operand {index} of {self.op.name} is absent")
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


Semantics: TypeAlias = Callable[[Call], list[Array]]
