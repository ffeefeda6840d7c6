"""Mixtures of experts: a device sorts its tokens into the slots of the experts that it has."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.placement import box_of, coordinates
from executors.spmd import Algorithm, OperatorRun, Shards, with_attributes
from ir.graph import Op
from ir.ops import COMBINE, DISPATCH


def _routed(task: OperatorRun) -> Shards:
    """The device knows how many experts there are, and which its first is."""
    outward = task.op.kind == DISPATCH
    dims = task.results[0].dims if outward else task.operand(0).dims
    layout = task.layouts[0] if outward else task.operand(0).layout
    places = coordinates(task.mesh)

    def variant(rank: int) -> Op:
        first, _ = box_of(dims, layout, task.mesh.sizes, places[rank])[0]
        return with_attributes(task.op, experts=dims[0], first_expert=first)

    return task.local(variant)


EXPERTS: Mapping[str, Algorithm] = MappingProxyType({DISPATCH: _routed, COMBINE: _routed})
