"""An operator that makes a tensor which is there already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from importers.operators import Dims, Operators
from importers.traced.writer import Attribute
from ir.graph import Tensor


@dataclass(frozen=True, slots=True)
class Making(Operators[Tensor]):
    """Writes one operator, whose result is given: by its dims nothing is worked out."""

    result: Tensor
    emit: Callable[..., object]
    """Writes a node by its kind, operands and attributes."""
    shape: Callable[[Sequence[int]], Tensor]
    """Gives integers as an operand."""

    def dims(self, value: Tensor) -> Dims:
        return value.dims

    def dtype_of(self, value: Tensor) -> str:
        return value.dtype

    def broadcast(self, kind: str, *values: Tensor) -> Dims:
        del kind, values
        return self.result.dims

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        dims: Sequence[int] = (),
        dtype: str = "",
        **attributes: Attribute,
    ) -> Tensor:
        del dims, dtype
        self.emit(kind, inputs, **attributes)
        return self.result

    def with_numbers(
        self,
        kind: str,
        value: Tensor,
        dims: Sequence[int],
        numbers: Mapping[str, Sequence[int]],
        **told: Attribute,
    ) -> Tensor:
        operands = [value, *(self.shape(each) for each in numbers.values())]
        return self.op(kind, operands, dims, "", **told)
