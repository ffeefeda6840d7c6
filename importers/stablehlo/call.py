"""One operation with its operands at hand: what the table is functions of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from importers.errors import ModelError
from importers.stablehlo.draft import Draft, Value
from importers.stablehlo.numbers import numpy_type
from importers.stablehlo.program import Dense, Operation, TensorType
from importers.stablehlo.tokens import AGAIN
from importers.stablehlo.views import (
    View,
    arranged,
    order_of,
    plain,
    repeated,
    step_dims,
    tensor_of,
    viewed,
)

Int: TypeAlias = int
"""`int` where a method of that name hides it."""


@dataclass(slots=True)
class Call:
    """An operation, and the steps that it becomes."""

    draft: Draft
    operation: Operation
    operands: Sequence[View]
    scope: str
    where: str
    made: list[View] = field(default_factory=list)
    """The results."""

    def operand(self, index: Int) -> View:
        """An operand.

        Raises:
            ModelError: there is none.
        """
        if index >= len(self.operands):
            raise self.fault(f"it has {len(self.operands)} operands")
        return self.operands[index]

    @property
    def result(self) -> TensorType:
        if not self.operation.types:
            raise self.fault("it has no result")
        return self.operation.types[0]

    def fault(self, what: str) -> ModelError:
        return ModelError(
            f"the operation does not fit its kind: {what}",
            f"{self.operation.name}, {self.where}",
            AGAIN,
        )

    def ints(self, name: str, default: Sequence[Int] | None = None) -> tuple[Int, ...]:
        """A list of whole numbers."""
        value = self.operation.attributes.get(name, None if default is None else tuple(default))
        if isinstance(value, Dense):
            return self._numbers(value)
        if not isinstance(value, tuple) or not all(isinstance(v, Int) for v in value):
            raise self.fault(f"{name} is no list of whole numbers")
        return tuple(int(v) for v in value if isinstance(v, Int))

    def _numbers(self, value: Dense) -> tuple[Int, ...]:
        inner = value.text[len("dense<") : -1]
        words = inner.replace("[", " ").replace("]", " ").replace(",", " ").split()
        if len(words) > 4096 or not all(w.lstrip("-").isdigit() for w in words):
            raise self.fault("a list is none of whole numbers")
        count = int(np.prod(value.type.dims)) if value.type else len(words)
        if len(words) == 1 and count <= 4096:
            words = words * count
        return tuple(int(w) for w in words)

    def int(self, name: str, default: Int | None = None) -> Int:
        value = self.operation.attributes.get(name, default)
        if not isinstance(value, Int):
            raise self.fault(f"{name} is no whole number")
        return value

    def pairs(self, name: str) -> tuple[tuple[Int, ...], tuple[Int, ...]]:
        """Dimensions of two operands: `[1] x [0]`."""
        value = self.operation.attributes.get(name)
        if value is None:
            return (), ()
        if not isinstance(value, dict):
            raise self.fault(f"{name} names no dimensions of two operands")
        sides = []
        for side, view in zip(("left", "right"), self.operands, strict=False):
            axes = value.get(side)
            if not isinstance(axes, tuple) or not all(
                isinstance(a, Int) and 0 <= a < len(view.dims) for a in axes
            ):
                raise self.fault(f"{name} names a dimension that is not there")
            sides.append(tuple(int(a) for a in axes if isinstance(a, Int)))
        return sides[0], sides[1]

    def axis(self, axis: Int, rank: Int) -> Int:
        if not 0 <= axis < rank:
            raise self.fault(f"dimension {axis} of a value with {rank}")
        return axis

    def dtype(self, view: View) -> str:
        return self.draft.tensors[view.tensor].dtype

    def step(
        self, kind: str, inputs: Sequence[str], dims: tuple[Int, ...], dtype: str, **attrs: Value
    ) -> str:
        return self.draft.step(kind, inputs, dims, dtype, self.scope, **attrs)

    def pointwise(self, kind: str, views: Sequence[View], dtype: str, **attrs: Value) -> View:
        """Something element-wise over values of equal dims, or numbers beside them."""
        dims = max((v.dims for v in views), key=len)
        every = [v if v.dims == dims else repeated(v, dims, range(len(v.dims))) for v in views]
        order = order_of(self.draft, every)
        names = [arranged(self.draft, v, order, self.scope) for v in every]
        made = self.step(kind, names, step_dims(self.draft, names), dtype, **attrs)
        return viewed(self.draft, made, order, dims)

    def number(self, value: float, dtype: str, dims: tuple[Int, ...] = ()) -> View:
        """One number, as a value of these dims."""
        array = np.array(value).astype(numpy_type(dtype))
        return repeated(plain(self.draft, self.draft.constant(array, dtype)), dims, ())

    def whole(self, view: View) -> str:
        """A tensor with the dims of the value."""
        return tensor_of(self.draft, view, self.scope)

    def scalar(self, view: View) -> float | None:
        """The number that a value has throughout, if that is known."""
        return self.draft.scalar(view.tensor)

    def finish(self, *views: View) -> None:
        """The results; their dims must be those that the file tells.

        Raises:
            ModelError: they are others.
        """
        for view, kind in zip(views, self.operation.types, strict=False):
            if view.dims != kind.dims:
                raise self.fault(f"the file says {list(kind.dims)}, it makes {list(view.dims)}")
        self.made = list(views)

    def finish_with(self, name: str) -> None:
        """One result, a tensor as it is."""
        self.finish(plain(self.draft, name))


Converter: TypeAlias = Callable[[Call], None]
