"""Parameters at the two ends of a network: embeddings, and the matrix before the loss.

Some optimizers (Muon) update them in another way than what lies between.
"""

from __future__ import annotations

from collections.abc import Iterator

from ir.graph import Op, OpGraph, Role
from ir.normalise.ends import ENDS
from ir.ops import Engine, OpView, lookup

__all__ = ["end_parameters"]


def end_parameters(graph: OpGraph) -> frozenset[str]:
    """Names of the parameters whose rows are looked up, and of those of the last products.

    A last product is one whose result alone reaches an end of the graph, through operators that
    read no other activation. A part of a network without its end has none.
    """
    return graph.once("end parameters", _end_parameters)


def _end_parameters(graph: OpGraph) -> frozenset[str]:
    return frozenset((*_tables(graph), *_heads(graph)))


def _tables(graph: OpGraph) -> Iterator[str]:
    for op in graph.ops:
        if not any(name and _is_parameter(graph, name) for name in op.inputs):
            continue
        rule = lookup(op.kind).rule(OpView(op, graph))
        for name, mapping in zip(op.inputs, rule.operands, strict=True):
            factors = {factor for dim in mapping or () for factor in dim}
            if name and _is_parameter(graph, name) and factors & set(rule.lookup):
                yield name


def _heads(graph: OpGraph) -> Iterator[str]:
    makers = graph.producers()
    for end in graph.ops:
        op: Op | None = end if end.kind in ENDS else None
        while op is not None:
            if lookup(op.kind).engine is Engine.MATRIX:
                yield from (name for name in op.inputs if name and _is_parameter(graph, name))
                break
            read = [name for name in op.inputs if name and _is_activation(graph, name)]
            op = makers.get(read[0]) if len(read) == 1 else None


def _is_parameter(graph: OpGraph, name: str) -> bool:
    return graph.tensors[name].role is Role.PARAMETER


def _is_activation(graph: OpGraph, name: str) -> bool:
    tensor = graph.tensors[name]
    return tensor.is_float and tensor.role is Role.ACTIVATION
