"""Layouts of a plan as sharding constraints on a JAX mesh, and where the gradients of the readers
of one tensor meet.

Terms of one sum are added before it is completed, as the plan says; gradients that are complete
join once that is done. XLA adds in whatever order it is told, so the order is told here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ir.graph import Op, OpGraph
from ir.ops import OpView, lookup
from ir.plan import NamedLayout, Plan, PlannedCollective, PlannedOperator


def mesh_of(plan: Plan, devices: Sequence[Any]) -> Mesh:
    """The mesh of a plan on real or forced devices; ranks are row-major."""
    sizes = [size for _, size, _ in plan.mesh]
    names = [name for name, _, _ in plan.mesh]
    return Mesh(np.array(devices[: plan.devices]).reshape(sizes), names)


@dataclass(frozen=True, slots=True)
class Pins:
    """Pins tensors to layouts."""

    mesh: Mesh

    def sharding(self, layout: NamedLayout) -> NamedSharding:
        """A layout without its partial axes: XLA has no such state between operators."""
        return NamedSharding(self.mesh, PartitionSpec(*(dim or None for dim in layout.dims)))

    def whole(self, rank: int) -> NamedSharding:
        """Every device has the whole tensor."""
        return NamedSharding(self.mesh, PartitionSpec(*(None,) * rank))

    def along(self, array: Any, there: Iterable[NamedLayout], back: Iterable[NamedLayout]) -> Any:
        """The array through some layouts, and its gradient back through others, or as it is.

        A layout in which an axis splits each of several pieces is left out: XLA has no such.
        """
        forward = self._distinct(there)
        if not jax.numpy.issubdtype(array.dtype, jax.numpy.floating):
            return _constrained(array, forward)
        return _pinned(forward, self._distinct(back), array)

    def _distinct(self, layouts: Iterable[NamedLayout]) -> tuple[NamedSharding, ...]:
        out: list[NamedSharding] = []
        for layout in layouts:
            if any(axis.startswith("/") for dim in layout.dims for axis in dim):
                continue
            found = self.sharding(layout)
            if not out or out[-1] != found:
                out.append(found)
        return tuple(out)


def _constrained(array: Any, shardings: Iterable[NamedSharding]) -> Any:
    for sharding in shardings:
        array = jax.lax.with_sharding_constraint(array, sharding)
    return array


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _pinned(there: tuple[NamedSharding, ...], _: tuple[NamedSharding, ...], array: Any) -> Any:
    return _constrained(array, there)


def _pinned_forward(
    there: tuple[NamedSharding, ...], _: tuple[NamedSharding, ...], array: Any
) -> tuple[Any, None]:
    return _constrained(array, there), None


def _pinned_backward(
    _: tuple[NamedSharding, ...], back: tuple[NamedSharding, ...], __: None, gradient: Any
) -> tuple[Any]:
    return (_constrained(gradient, back),)


_pinned.defvjp(_pinned_forward, _pinned_backward)


def layouts_along(path: Sequence[PlannedCollective]) -> list[NamedLayout]:
    """Through which layouts a path of messages goes."""
    return [x for item in path for x in (item.before, item.after) if x is not None]


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
