"""Where gradients exist: between a trainable parameter and a loss."""

from __future__ import annotations

from ir.graph import Op, OpGraph
from ir.ops import Needs, lookup
from ir.ops.fused import FUSED


def tensors_with_gradient(graph: OpGraph) -> frozenset[str]:
    """Tensors that depend on a trainable parameter and that the end of the graph depends on.

    The end is what the graph delivers, and what is made of that and read by nobody: a loss.
    """
    return graph.once("tensors with gradient", _tensors_with_gradient)


def _tensors_with_gradient(graph: OpGraph) -> frozenset[str]:
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
    for part in op.parts if op.kind == FUSED else ():
        _spread(part, found, graph)
    if any(n in found for n in _differentiable(op)):
        found.update(n for n in op.outputs if n and graph.tensors[n].is_float)


def _reach(op: Op, reached: set[str], graph: OpGraph) -> None:
    """Add the differentiable operands of an operator if one of its results is among the reached."""
    for part in reversed(op.parts) if op.kind == FUSED else ():
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


def read_back(op: Op, gradient: frozenset[str]) -> tuple[str, ...]:
    """Operands and results that the backward pass of an operator reads, each once.

    Args:
        op: the operator.
        gradient: tensors that have one.
    """
    names = _needed_by_composite(op, gradient) if op.kind == FUSED else _needed(op, gradient)
    return tuple(dict.fromkeys(names))


def _needed(op: Op, gradient: frozenset[str]) -> list[str]:
    flags = operand_gradients(op, gradient)
    if not any(flags):
        return []
    operands = [n for n in op.inputs if n]
    match lookup(op.kind).needs:
        case Needs.NOTHING:
            return []
        case Needs.OTHERS:
            return [
                n
                for i, flag in enumerate(flags)
                if flag
                for j, n in enumerate(op.inputs)
                if j != i and n
            ]
        case Needs.RESULT:
            return [op.outputs[-1]]
        case Needs.OPERANDS:
            return operands
        case Needs.OPERANDS_AND_RESULT:
            return [*operands, op.outputs[0]]
        case _:
            return operands[:1]


def _needed_by_composite(op: Op, gradient: frozenset[str]) -> list[str]:
    """A fused kernel keeps its own operands and computes what lies inside again."""
    origin: dict[str, list[str]] = {n: [n] for n in op.inputs if n}
    wanted: list[str] = []
    for part in op.parts:
        behind = list(dict.fromkeys(o for n in part.inputs if n for o in origin.get(n, [])))
        for name in part.outputs:
            origin[name] = [name] if name in op.outputs else behind
        for name in _needed(part, gradient):
            wanted += origin.get(name, [])
    return wanted
