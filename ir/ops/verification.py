"""Operators that do not fit their operands are found before anything is planned from them."""

from __future__ import annotations

from ir.graph import GraphError, Op, OpGraph
from ir.ops.registry import OpView, lookup
from ir.rule import check_rule

_MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def check_operators(graph: OpGraph) -> None:
    """Build the rule and the counts of every distinct operator once.

    Raises:
        GraphError: an operator whose operands or attributes its kind does not allow; it is named.
    """
    seen: set[tuple[object, ...]] = set()
    for op in graph.ops:
        signature = _signature(op, graph)
        if signature in seen:
            continue
        seen.add(signature)
        try:
            _check(OpView(op, graph))
        except _MISFITS as error:
            dims = ", ".join(str(list(graph.tensors[n].dims)) for n in op.inputs if n)
            reason = "too few of them, or of dimensions" if _is_missing(error) else str(error)
            raise GraphError(
                f"operator {op.name} ({op.kind}) does not fit its operands {dims or 'none'}: "
                f"{reason}"
            ) from error


def _is_missing(error: Exception) -> bool:
    return isinstance(error, LookupError)


def _check(view: OpView) -> None:
    entry = lookup(view.op.kind)
    rule = entry.rule(view)
    operands = [None if t is None else t.dims for t in view.inputs]
    check_rule(rule, operands, [t.dims for t in view.outputs])
    entry.flops(view)
    if entry.touched_bytes:
        entry.touched_bytes(view)


def _signature(op: Op, graph: OpGraph) -> tuple[object, ...]:
    named = [graph.tensors[n] if n else None for n in (*op.inputs, *op.outputs)]
    return (
        op.kind,
        tuple(sorted(op.attributes.items())),
        len(op.inputs),
        tuple((t.dims, t.dtype) if t else None for t in named),
        tuple(p.name for p in op.parts),
    )
