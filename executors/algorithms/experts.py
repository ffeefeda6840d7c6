"""Mixtures of experts: a device sorts its tokens into the slots of the experts that it has."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.placement import box_of, coordinates
from executors.spmd import Algorithm, Shards, Task, with_attributes


def _routed(task: Task) -> Shards:
    """The device knows how many experts there are, and which its first is."""
    outward = task.op.kind == "Dispatch"
    dims = task.results[0].dims if outward else task.operand(0).dims
    layout = task.layouts[0] if outward else task.operand(0).layout
    out = []
    for rank, place in enumerate(coordinates(task.mesh)):
        first, _ = box_of(dims, layout, task.mesh.sizes, place)[0]
        op = with_attributes(task.op, experts=dims[0], first_expert=first)
        operands = [None if o is None else o.shards[rank] for o in task.operands]
        out.append(task.on(rank, op, operands))
    return out


EXPERTS: Mapping[str, Algorithm] = MappingProxyType({"Dispatch": _routed, "Combine": _routed})
