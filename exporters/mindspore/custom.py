"""Operators that a given rule describes, as primitives of the network's own in MindSpore.

MindSpore splits a primitive that it does not know by batch, whatever cuts it is given. One with the
attribute `self_define_shard` takes layouts of its inputs and results instead, and is redistributed
around as they say. `make test-mindspore` sees 2.10.0 do both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ir.graph import Tensor
from ir.mindspore_forms.primitives import as_stored
from ir.mindspore_forms.readers import Reader, operators
from ir.ops import annotation
from ir.plan import NamedLayout, Plan

DimAxes: TypeAlias = tuple[str, ...]
TensorAxes: TypeAlias = tuple[DimAxes, ...]
"""For each dimension the axes that cut it, outermost first."""


@dataclass(frozen=True, slots=True)
class CustomOperator:
    """One operator with a given rule."""

    reader: Reader
    primitive: str
    """What the network's primitive is to be called: the kind without its domain."""
    inputs: tuple[TensorAxes, ...]
    results: tuple[TensorAxes, ...]
    is_summed: bool
    """Whether the results are sums over devices, which nobody adds up but the operator itself."""


def custom_operators(plan: Plan) -> Iterator[CustomOperator]:
    """Every operator of a plan that has its rule from the user, in graph order."""
    planned = {operator.name: operator for operator in plan.operators}
    summed = {item.operator for item in plan.collectives if not item.tensor}
    for reader in operators(plan):
        if annotation(reader.op) and not reader.form.name:
            own = planned[reader.op.name]
            yield CustomOperator(
                reader,
                reader.op.kind.rpartition("::")[2],
                _axes(plan, reader.op.inputs, own.inputs),
                _axes(plan, reader.op.outputs, own.outputs),
                reader.op.name in summed,
            )


def wide_axes(plan: Plan) -> tuple[tuple[str, int], ...]:
    """Mesh axes of more than one device, outermost first."""
    return tuple((name, size) for name, size, _ in plan.mesh if size > 1)


def losses(plan: Plan) -> tuple[str, ...]:
    """What must be true of the network for these operators to run as planned, a sentence a kind."""
    found: dict[str, list[CustomOperator]] = {}
    for each in custom_operators(plan) if plan.devices > 1 else ():
        found.setdefault(each.reader.op.kind, []).append(each)
    return tuple(_sentence(kind, members) for kind, members in found.items())


def _sentence(kind: str, members: list[CustomOperator]) -> str:
    text = (
        f"{len(members)} x {kind}, such as {members[0].reader.op.name!r}: MindSpore splits them by "
        f"batch, unless apply_mindspore.py finds them as primitives named {members[0].primitive!r}"
    )
    if any(each.is_summed for each in members):
        text += "; their results are sums over devices, which they must add up themselves"
    return text


def _axes(
    plan: Plan, names: tuple[str, ...], layouts: tuple[NamedLayout | None, ...]
) -> tuple[TensorAxes, ...]:
    """Cuts of the tensors that are there; one without a layout is whole on every device."""
    tensors = plan.graph.tensors
    pairs = zip(names, layouts, strict=True)
    return tuple(_of_tensor(plan, tensors[name], layout) for name, layout in pairs if name)


def _of_tensor(plan: Plan, tensor: Tensor, layout: NamedLayout | None) -> TensorAxes:
    if layout is None:
        return ((),) * len(tensor.dims)
    wide = {name for name, _ in wide_axes(plan)}
    dims = tuple(tuple(axis for axis in dim if axis in wide) for dim in layout.dims)
    return as_stored(dims, tensor)
