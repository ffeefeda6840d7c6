"""Several moves of the same elements, one behind the other, are one or none."""

from __future__ import annotations

from dataclasses import replace

from ir.graph import Op, OpGraph


def with_single_moves(graph: OpGraph) -> OpGraph:
    """The graph with transposes of transposes and reshapes of reshapes joined, and without those
    that change nothing.
    """
    makers: dict[str, Op] = {}
    alias: dict[str, str] = {}
    kept: list[Op] = []
    for original in graph.ops:
        op = replace(original, inputs=tuple(alias.get(n, n) for n in original.inputs))
        if len(op.outputs) == 1 and op.kind in _JOIN:
            before = makers.get(op.inputs[0])
            if before is not None and before.kind == op.kind:
                op = _JOIN[op.kind](before, op)
            if _changes_nothing(op, graph) and op.outputs[0] not in graph.outputs:
                alias[op.outputs[0]] = op.inputs[0]
                continue
        makers.update(dict.fromkeys(op.outputs, op))
        kept.append(op)
    return live(graph, kept)


def live(graph: OpGraph, ops: list[Op]) -> OpGraph:
    """The graph with these operators, without those that no output depends on."""
    wanted = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(ops):
        if wanted.intersection(op.outputs):
            wanted.update(op.inputs)
            kept.append(op)
    return graph.with_ops(reversed(kept))


def _reshaped(before: Op, op: Op) -> Op:
    return replace(op, inputs=before.inputs[:1])


def _transposed(before: Op, op: Op) -> Op:
    """One transpose; a matrix turned for a product stays a turn of its own, which products and
    attention are recognised by.
    """
    first, second = before.attributes.get("perm"), op.attributes.get("perm")
    if not isinstance(first, tuple) or not isinstance(second, tuple):
        return op
    perm = tuple(int(first[int(p)]) for p in second)
    rank = len(perm)
    turned = second == (*range(rank - 2), rank - 1, rank - 2)
    if turned and perm != tuple(range(rank)):
        return op
    return replace(op, inputs=before.inputs, attributes={**op.attributes, "perm": perm})


_JOIN = {"Reshape": _reshaped, "Transpose": _transposed}


def _changes_nothing(op: Op, graph: OpGraph) -> bool:
    source, result = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    perm = op.attributes.get("perm")
    if op.kind == "Transpose":
        return isinstance(perm, tuple) and perm == tuple(range(len(perm)))
    return source.dims == result.dims
