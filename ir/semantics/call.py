"""One call of an operator on arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Generic, TypeAlias, TypeVar

from ir.graph import Op
from ir.ops import Function
from ir.semantics.arrays import Array

Int: TypeAlias = int
A = TypeVar("A")


class NotRunError(Exception):
    """An operator that could not be run; the message says why."""


@dataclass(frozen=True)  # an alias with its type cannot make a frozen object with slots
class CallOf(Generic[A]):
    """An operator, its operands and the dims of its results, in arrays of one library."""

    op: Op
    operands: tuple[A | None, ...]
    """None for an absent one."""
    result_dims: tuple[tuple[Int, ...], ...]
    result_dtypes: tuple[str, ...] = ()
    """In which the results are computed."""

    def __getitem__(self, index: Int) -> A:
        found = self.operands[index]
        if found is None:
            raise IndexError(f"operand {index} of {self.op.name} is absent")
        return found

    def has(self, index: Int) -> bool:
        return index < len(self.operands) and self.operands[index] is not None

    @property
    def present(self) -> list[A]:
        """The operands that are not absent."""
        return [each for each in self.operands if each is not None]

    def int(self, key: str, default: Int = 0) -> Int:
        return int(str(self.op.attributes.get(key, default)))

    def float(self, key: str, default: float) -> float:
        return float(str(self.op.attributes.get(key, default)))

    def ints(self, key: str, default: tuple[Int, ...] = ()) -> tuple[Int, ...]:
        value = self.op.attributes.get(key, default)
        return tuple(int(v) for v in value) if isinstance(value, tuple) else (int(str(value)),)


Call: TypeAlias = CallOf[Array]
"""Of one device, in numpy's arrays or what stands for them."""
Semantics: TypeAlias = Callable[[Call], list[Array]]


def applied(known: Function, function: Callable[..., A]) -> Callable[[CallOf[A]], list[A]]:
    """The semantics of an operator that one function of a library computes."""
    if known.operands == 1:
        return lambda call: [function(call[0])]
    return lambda call: [reduce(function, call.present)]
