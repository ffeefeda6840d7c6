"""Where the gradients of the readers of one tensor meet.

Terms of one sum are added before it is completed, as the plan says; gradients that are complete
join once that is done. XLA adds in whatever order it is told, so the order is told here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import jax

from executors.xla.pins import Pins
from ir.graph import Op, OpGraph
from ir.ops import OpView, lookup
from ir.plan import NamedLayout, PlannedOperator

Axes = frozenset[str]
GRADIENT_TERMS = -2


def terms_of(op: Op, index: int, planned: PlannedOperator, graph: OpGraph) -> Axes:
    """Mesh axes over which the gradient of an operand is a term of a sum where it arises."""
    mapping = lookup(op.kind).rule(OpView(op, graph)).operands[index]
    own = {factor for dim in mapping or () for factor in dim}
    split = planned.split
    return frozenset(a for a, f in split if f == GRADIENT_TERMS or (f >= 0 and f not in own))


@dataclass(frozen=True, slots=True)
class Meeting:
    """How gradients come together."""

    pins: Pins
    way: tuple[NamedLayout, ...]
    """Layouts from where they meet to where the tensor was made."""
    terms: tuple[Axes, ...]
    """Of each gradient that arrives, the axes over which it is a term."""

    def total(self, arrived: Sequence[Any]) -> Any:
        """The sum of all, in the last layout of the way."""
        groups: dict[Axes, list[Any]] = {}
        for axes, gradient in zip(self.terms, arrived, strict=True):
            groups.setdefault(axes, []).append(gradient)
        for layout in self.way:
            left: dict[Axes, list[Any]] = {}
            for axes, gradients in groups.items():
                total = self.pins.along(_sum(gradients), [layout], [])
                left.setdefault(axes & frozenset(layout.partial), []).append(total)
            groups = left
        return _sum([_sum(gradients) for gradients in groups.values()])


def _sum(arrays: Sequence[Any]) -> Any:
    return reduce(jax.numpy.add, arrays)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def handed_out(meeting: Meeting, array: Any) -> tuple[Any, ...]:
    """The tensor once for every reader that has a gradient for it."""
    return (array,) * len(meeting.terms)


def _forward(meeting: Meeting, array: Any) -> tuple[tuple[Any, ...], None]:
    return handed_out(meeting, array), None


def _backward(meeting: Meeting, _: None, gradients: tuple[Any, ...]) -> tuple[Any]:
    return (meeting.total(gradients),)


handed_out.defvjp(_forward, _backward)
