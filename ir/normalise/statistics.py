"""Which statistics a normalisation uses when nothing is trained."""

from __future__ import annotations

from dataclasses import replace

from ir.graph import Op, OpGraph
from ir.ops import lookup


def use_stored_statistics(graph: OpGraph) -> OpGraph:
    """The graph for inference: an operator with running statistics uses them, unless the model
    says `training_mode`.
    """
    return replace(graph, ops=tuple(_without_training(op) for op in graph.ops))


def _without_training(op: Op) -> Op:
    if not lookup(op.kind).buffer_operands or op.attributes.get("training_mode"):
        return op
    return replace(op, attributes={**op.attributes, "training": 0})
