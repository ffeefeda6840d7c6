"""What planning can tell operators apart by."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from ir.graph import Op, OpGraph, Tensor
from ir.ops import FUSED


def signatures_of(graph: OpGraph) -> Mapping[str, Hashable]:
    """The signature of every operator of a graph, by name."""
    return graph.once("signatures", _signatures)


def _signatures(graph: OpGraph) -> Mapping[str, Hashable]:
    return {op.name: signature(op, graph.tensors) for op in graph.ops}


def signature(op: Op, tensors: Mapping[str, Tensor]) -> tuple[object, ...]:
    """Equal for operators that planning cannot tell apart."""
    return _signature(op, tensors, {})


def signature_of_all(
    ops: Sequence[Op], tensors: Mapping[str, Tensor], number: dict[str, int]
) -> tuple[object, ...]:
    """The same for operators that belong together; `number` counts their tensors."""
    return tuple(_signature(op, tensors, number) for op in ops)


def _signature(op: Op, tensors: Mapping[str, Tensor], number: dict[str, int]) -> tuple[object, ...]:
    def facts(name: str) -> tuple[object, ...]:
        if not name:
            return ()
        tensor = tensors[name]
        same = number.setdefault(name, len(number))
        return same, tensor.dims, tensor.divisors, tensor.dtype, tensor.role

    attributes = tuple(sorted((k, v) for k, v in op.attributes.items()))
    inputs, outputs = tuple(facts(n) for n in op.inputs), tuple(facts(n) for n in op.outputs)
    # A composite of kind "Fused" is made of its parts; other composites are told by their operands.
    parts = tuple(_signature(p, tensors, number) for p in op.parts) if op.kind == FUSED else ()
    return op.kind, attributes, inputs, outputs, parts, op.divisors
