"""Operators that change nothing are removed."""

from __future__ import annotations

from dataclasses import replace

from ir.graph import Op, OpGraph
from ir.ops import Resizing, lookup
from ir.ops.shape import CARRIERS


def drop_identities(graph: OpGraph) -> OpGraph:
    """Without Identity, casts to the same type and reshapes to the same dims."""
    alias: dict[str, str] = {}
    kept: list[Op] = []
    for op in graph.ops:
        inputs = tuple(alias.get(n, n) for n in op.inputs)
        if _is_identity(op, graph) and op.outputs[0] not in graph.outputs:
            alias[op.outputs[0]] = inputs[0]
        else:
            kept.append(op if inputs == op.inputs else replace(op, inputs=inputs))
    return graph.with_ops(kept)


def _is_identity(op: Op, graph: OpGraph) -> bool:
    resizing = lookup(op.kind).resizing
    if resizing is Resizing.PADDED and op.attributes.get("axes"):
        return False
    if op.kind not in CARRIERS and resizing not in {Resizing.MULTIPLIED, Resizing.PADDED}:
        return False
    source, result = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    return source.dims == result.dims and source.dtype == result.dtype
