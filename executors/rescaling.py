"""The messages of a plan at the extents of its small copy.

Bytes are taken from the plan and scaled by how the part of a device shrank, so that a wrong number
in the plan stays wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from executors.reference import mesh_of
from executors.splits import result_layouts
from ir.dtypes import dtype_bytes
from ir.graph import OpGraph
from ir.ops import OpView, lookup
from ir.plan import NamedLayout, Plan, PlannedCollective, PlannedOperator
from ir.plan_enums import Cause
from ir.plan_stages import axis_sizes
from ir.rule import edge_elements


def rescaled(small: Plan, full: Plan) -> Plan:
    """The small plan with the bytes of its messages.

    Args:
        small: a copy of the full plan with smaller extents, its messages as in the full plan.
        full: the plan.
    """
    scale = _Scale(small, full)
    scaled = replace(small, collectives=tuple(scale.item(item) for item in small.collectives))
    sends = tuple(scale.item(send) for send in small.pipeline.sends)
    return replace(scaled, pipeline=replace(small.pipeline, sends=sends))


@dataclass(frozen=True, slots=True)
class _Message:
    axes: frozenset[str]
    nbytes: float


class _Scale:
    def __init__(self, small: Plan, full: Plan) -> None:
        self.small, self.full = small, full
        self.inside: dict[str, dict[_Message, float]] = {}

    def item(self, item: PlannedCollective) -> PlannedCollective:
        """One message; what cannot be found again keeps its bytes and will not match."""
        if item.cause == Cause.INSIDE:
            key = _Message(frozenset(item.axes), item.nbytes)
            return replace(item, nbytes=self._inside(item.operator).get(key, item.nbytes))
        # The pieces of a scatter are padded, and so what is scattered.
        layout = item.after if item.kind == "reduce_scatter" else item.before
        if layout is None:
            return item
        sizes = axis_sizes(self.full, item.stage)
        before = _elements(self.full.graph, item.tensor, layout, sizes)
        now = _elements(self.small.graph, item.tensor, layout, sizes)
        return replace(item, nbytes=item.nbytes * now / before if before else item.nbytes)

    def _inside(self, name: str) -> Mapping[_Message, float]:
        """Bytes at small extents by what a message is at full ones."""
        if name not in self.inside:
            big = inside_messages(self.full, name)
            little = inside_messages(self.small, name)
            pairs = zip(big, little, strict=True)
            self.inside[name] = {old: new.nbytes for old, new in pairs}
        return self.inside[name]


def _elements(graph: OpGraph, tensor: str, layout: NamedLayout, sizes: Mapping[str, int]) -> int:
    dims = graph.tensors[tensor].dims
    return math.prod(-(-d // n) for d, n in zip(dims, layout.shards(sizes), strict=True))


def inside_messages(plan: Plan, name: str) -> list[_Message]:
    """What an operator sends inside by its rule and the layouts of its results, each kind once."""
    op = next(op for op in plan.graph.ops if op.name == name)
    planned: PlannedOperator = next(op for op in plan.operators if op.name == name)
    mesh, view = mesh_of(plan, planned.stage), OpView(op, plan.graph)
    rule = lookup(op.kind).rule(view)
    assignment = tuple(factor for _, factor in planned.split)
    shards = {
        f: math.prod(mesh.sizes[a] for a, g in enumerate(assignment) if g == f)
        for f in range(len(rule.sizes))
    }
    out: list[_Message] = []
    for item in rule.internal:
        axes = [mesh.axes[a].name for a, f in enumerate(assignment) if f in item.factors]
        elements = math.prod(-(-rule.sizes[f] // shards[f]) for f in item.message)
        out.append(_Message(frozenset(axes), elements * item.bytes_per_element))
    for window, count in zip(
        rule.windows, edge_elements(rule.windows, rule.sizes, shards), strict=True
    ):
        axes = [mesh.axes[a].name for a, f in enumerate(assignment) if f == window.factor]
        out.append(_Message(frozenset(axes), count * window.bytes_per_element))
    layouts = result_layouts(rule, assignment, mesh.sizes)
    for tensor, layout, given in zip(view.outputs, layouts, planned.outputs, strict=True):
        kept = given.partial if given is not None else ()
        axes = [mesh.axes[a].name for a in layout.partial if mesh.axes[a].name not in kept]
        nbytes = math.prod(layout.local_dims(tensor.dims, mesh.sizes)) * dtype_bytes(tensor.dtype)
        out.append(_Message(frozenset(axes), nbytes))
    return out
