"""One operation with its operands as views: a call, and what only StableHLO has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from importers.stablehlo.draft import View
from importers.stablehlo.nodes import Nodes
from importers.stablehlo.program import Dense, Operation
from importers.stablehlo.tokens import AGAIN
from importers.stablehlo.views import ViewDraft, tensor_of
from importers.traced.call import Argument, Call
from importers.traced.table import Entry, arguments_of
from importers.traced.writer import Attribute
from ir.graph import Tensor

Int: TypeAlias = int
"""`int` where a method of that name hides it."""
_MOST_NUMBERS = 4096


@dataclass(slots=True, kw_only=True)
class ViewCall(Call):
    """An operation, and the steps that it becomes.

    What is element-wise is written by `op` and `emit`, over views; all else by `nodes`, over
    tensors as they are.
    """

    draft: ViewDraft
    operation: Operation
    views: Sequence[View]
    """The operands."""

    def view(self, index: Int) -> View:
        """An operand.

        Raises:
            ModelError: there is none.
        """
        if index >= len(self.views):
            raise self.fault(f"it has {len(self.views)} operands")
        return self.views[index]

    def ints(self, name: str, default: Sequence[Int] = ()) -> tuple[Int, ...]:
        """A list of whole numbers; one must be there unless there is a default."""
        value = self.operation.attributes.get(name, tuple(default) or None)
        if isinstance(value, Dense):
            return self._numbers(value)
        if not isinstance(value, tuple) or not all(isinstance(v, Int) for v in value):
            raise self.fault(f"{name} is no list of whole numbers")
        return tuple(int(v) for v in value if isinstance(v, Int))

    def _numbers(self, value: Dense) -> tuple[Int, ...]:
        inner = value.text[len("dense<") : -1]
        words = inner.replace("[", " ").replace("]", " ").replace(",", " ").split()
        if len(words) > _MOST_NUMBERS or not all(w.lstrip("-").isdigit() for w in words):
            raise self.fault("a list is none of whole numbers")
        count = int(np.prod(value.type.dims)) if value.type else len(words)
        if len(words) == 1 and count <= _MOST_NUMBERS:
            words = words * count
        return tuple(int(w) for w in words)

    def pairs(self, name: str) -> tuple[tuple[Int, ...], tuple[Int, ...]]:
        """Dimensions of two operands: `[1] x [0]`."""
        value = self.operation.attributes.get(name)
        if value is None:
            return (), ()
        if not isinstance(value, dict):
            raise self.fault(f"{name} names no dimensions of two operands")
        sides = []
        for side, view in zip(("left", "right"), self.views, strict=False):
            axes = value.get(side)
            if not isinstance(axes, tuple) or not all(
                isinstance(a, Int) and 0 <= a < len(view.dims) for a in axes
            ):
                raise self.fault(f"{name} names a dimension that is not there")
            sides.append(tuple(int(a) for a in axes if isinstance(a, Int)))
        return sides[0], sides[1]

    def inside(self, axis: Int, rank: Int) -> Int:
        """A dimension, which a value of this rank must have."""
        if not 0 <= axis < rank:
            raise self.fault(f"dimension {axis} of a value with {rank}")
        return axis

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        dims: Sequence[Int] | None = None,
        dtype: str = "",
        **attributes: Attribute,
    ) -> View:
        return as_view(Call.op(self, kind, inputs, dims, dtype, **attributes))

    def scalar(self, value: Argument, dtype: str) -> View:
        return as_view(Call.scalar(self, value, dtype))

    def cast(self, tensor: Tensor, dtype: str) -> View:
        return as_view(Call.cast(self, tensor, dtype))

    @property
    def nodes(self) -> Nodes:
        """Writes steps over tensors as they are."""
        return Nodes(self.draft, self.scope)

    def whole(self, view: View) -> str:
        """A tensor with the dims of the value."""
        return tensor_of(self.draft, view, self.scope)

    def number(self, view: View) -> float | None:
        """The number that a value has throughout, if that is known."""
        return self.draft.scalar(view.name)

    def deliver(self, *views: Tensor) -> None:
        """Let the results be these."""
        self.made.update(enumerate(views))

    def results_made(self) -> list[View]:
        """The results; their dims must be those that the file tells.

        Raises:
            ModelError: they are others.
        """
        found = [v for _, v in sorted(self.made.items()) if isinstance(v, View)]
        for view, kind in zip(found, self.operation.types, strict=False):
            if view.dims != kind.dims:
                raise self.fault(f"the file says {list(kind.dims)}, it makes {list(view.dims)}")
        return found


def as_view(tensor: Tensor) -> View:
    """What a draft makes, which is a view."""
    if not isinstance(tensor, View):
        raise TypeError(f"{tensor.name} is no view")
    return tensor


def view_call(
    draft: ViewDraft, operation: Operation, views: Sequence[View], scope: str, place: str,
    entry: Entry | None = None,
) -> ViewCall:  # fmt: skip
    """An operation as a call.

    Args:
        draft: what it is written to.
        operation: of the program.
        views: its operands.
        scope: path of the module.
        place: file and line.
        entry: its line in the table.
    """
    plain = {k: v for k, v in operation.attributes.items() if isinstance(v, int | float | str)}
    results = tuple(Tensor(operation.name, t.dims, t.dtype) for t in operation.types)
    return ViewCall(
        draft, operation.name, operation.name, scope, arguments_of(entry, views, plain), results,
        frozenset(range(len(results))), where=place, again=AGAIN, draft=draft,
        operation=operation, views=views,
    )  # fmt: skip
