"""What a plan says of each operator: its time, what it holds, how it is split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ir.dtypes import dtype_bytes
from ir.folding import Axes
from ir.plan import NamedLayout, Plan, PlannedOperator
from ir.plan_stages import axis_sizes


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """One operator of a plan."""

    planned: PlannedOperator
    communication_s: float
    """Of the collectives that it needs, those of its parameters included, in one step."""
    held_bytes: float
    """Of a device: its results, and the parameters that it is the first to read, at rest."""
    inputs: str
    outputs: str
    recomputed: bool
    """Whether a result of it is computed again in the backward pass."""

    @property
    def compute_s(self) -> float:
        """In one step, with what is computed again."""
        return self.planned.compute_s + self.planned.recompute_s

    @property
    def time_s(self) -> float:
        return self.compute_s + self.communication_s


def operator_facts(plan: Plan) -> tuple[OperatorFacts, ...]:
    """The operators of a plan, in its order."""
    axes = Axes.of(plan)
    readers = first_readers(plan)
    spent = _communication(plan, readers)
    parameters: dict[str, float] = {}
    for tensor in plan.parameters:
        nbytes = math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        owner = readers.get(tensor.name, "")
        share = local_share(tensor.layout, axis_sizes(plan, tensor.stage))
        parameters[owner] = parameters.get(owner, 0.0) + nbytes * share
    again = set(plan.recomputed)
    return tuple(
        OperatorFacts(
            planned,
            spent.get(op.name, 0.0),
            parameters.get(op.name, 0.0)
            + sum(
                plan.graph.tensors[name].nbytes
                * local_share(layout, axis_sizes(plan, planned.stage))
                for name, layout in zip(op.outputs, planned.outputs, strict=True)
                if name
            ),
            axes.layouts(planned.inputs),
            axes.layouts(planned.outputs),
            not again.isdisjoint(op.outputs),
        )
        for op, planned in zip(plan.graph.ops, plan.operators, strict=True)
    )


def first_readers(plan: Plan) -> dict[str, str]:
    """The first operator that reads each tensor."""
    found: dict[str, str] = {}
    for op in plan.graph.ops:
        for name in op.inputs:
            if name:
                found.setdefault(name, op.name)
    return found


def local_share(layout: NamedLayout | None, sizes: Mapping[str, int]) -> float:
    """Share of a tensor that each device holds."""
    if layout is None:
        return 1.0
    parts = math.prod(sizes.get(axis, 1) for dim in layout.dims for axis in dim)
    return 1.0 / parts


def _communication(plan: Plan, readers: Mapping[str, str]) -> dict[str, float]:
    """Seconds by operator; what belongs to a tensor alone goes to its first reader."""
    makers = {name: op.name for op in plan.graph.ops for name in op.outputs}
    spent: dict[str, float] = {}
    for item in plan.collectives:
        owner = item.operator or readers.get(item.tensor) or makers.get(item.tensor, "")
        spent[owner] = spent.get(owner, 0.0) + item.exposed_s
    return spent
