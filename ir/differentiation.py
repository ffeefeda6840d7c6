"""Where gradients exist: between a trainable parameter and a loss."""

from __future__ import annotations

from ir.graph import Op, OpGraph
from ir.ops import lookup


def tensors_with_gradient(graph: OpGraph) -> frozenset[str]:
    """Tensors that depend on a trainable parameter and that the end of the graph depends on.

    The end is what the graph delivers, and what is made of that and read by nobody: a loss.
    """
    found = {t.name for t in graph.parameters if t.is_float}
    for op in graph.ops:
        _spread(op, found, graph)
    read = {n for op in graph.ops for n in op.inputs}
    reached = set(graph.outputs)
    for op in graph.ops:
        if reached.intersection(op.inputs):
            reached.update(n for n in op.outputs if n and n not in read)
    for op in reversed(graph.ops):
        _reach(op, reached, graph)
    return frozenset(found & reached)


def _spread(op: Op, found: set[str], graph: OpGraph) -> None:
    """Add the results of an operator if one of its differentiable operands is among the found."""
    for part in op.parts if op.kind == "Fused" else ():
        _spread(part, found, graph)
    if any(n in found for n in _differentiable(op)):
        found.update(n for n in op.outputs if n and graph.tensors[n].is_float)


def _reach(op: Op, reached: set[str], graph: OpGraph) -> None:
    """Add the differentiable operands of an operator if one of its results is among the reached."""
    for part in reversed(op.parts) if op.kind == "Fused" else ():
        _reach(part, reached, graph)
    if any(n in reached and graph.tensors[n].is_float for n in op.outputs if n):
        reached.update(_differentiable(op))


def _differentiable(op: Op) -> list[str]:
    if op.attributes.get("stop_gradient"):
        return []
    able = lookup(op.kind).differentiable
    return [n for i, n in enumerate(op.inputs) if n and (able is None or i in able)]


def operand_gradients(op: Op, gradient: frozenset[str]) -> tuple[bool, ...]:
    """Which operands get a gradient, given the tensors that have one."""
    entry = lookup(op.kind)
    if op.attributes.get("stop_gradient") or not any(n in gradient for n in op.outputs):
        return (False,) * len(op.inputs)
    able = entry.differentiable
    return tuple(
        bool(n) and n in gradient and (able is None or i in able) for i, n in enumerate(op.inputs)
    )
