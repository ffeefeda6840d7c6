"""What is computed from parameters alone is folded into the operators that use it, so that a
weight is one node.

A transpose in front of a product becomes the flag `trans_a` or `trans_b`; a cast goes (optimizers
keep the precision they need); any other transpose of a weight that nothing else reads becomes the
stored form of the weight.
"""

from __future__ import annotations

from dataclasses import replace

from ir.graph import Op, OpGraph, Role, Tensor
from ir.ops import lookup
from ir.ops.contraction import matmul_rule
from ir.ops.shape import transpose_rule


def fold_parameters(graph: OpGraph) -> OpGraph:
    """The graph with transposes and casts of weights folded away."""
    tensors = dict(graph.tensors)
    consumers = graph.consumers()
    alias: dict[str, str] = {}
    flipped: dict[str, str] = {}
    kept: list[Op] = []
    for original in graph.ops:
        inputs = tuple(alias.get(n, n) for n in original.inputs)
        op = original if inputs == original.inputs else replace(original, inputs=inputs)
        source = tensors[op.inputs[0]] if op.inputs and op.inputs[0] else None
        if source is None or source.role is not Role.PARAMETER or op.outputs[0] in graph.outputs:
            kept.append(_flip_operands(op, flipped))
            continue
        result = op.outputs[0]
        readers = consumers.get(result, [])
        turns = lookup(op.kind).rule is transpose_rule
        if op.kind == "Cast":
            alias[result] = op.inputs[0]
        elif (
            turns
            and _swaps_last(op)
            and len(source.dims) == 2
            and all(lookup(r.kind).rule is matmul_rule for r in readers)
        ):
            flipped[result] = op.inputs[0]
        elif turns and len(consumers[original.inputs[0]]) == 1:
            tensors[source.name] = _permuted(source, op)
            alias[result] = source.name
        else:
            kept.append(_flip_operands(op, flipped))
    return graph.with_ops(kept, tensors)


def _swaps_last(op: Op) -> bool:
    perm = op.attributes.get("perm", (1, 0))
    return perm == (1, 0)


def _flip_operands(op: Op, flipped: dict[str, str]) -> Op:
    if not any(n in flipped for n in op.inputs):
        return op
    attributes = dict(op.attributes)
    for index, key in enumerate(("trans_a", "trans_b")):
        if op.inputs[index] in flipped:
            attributes[key] = 1 - int(str(attributes.get(key, 0)))
    return replace(op, inputs=tuple(flipped.get(n, n) for n in op.inputs), attributes=attributes)


def _permuted(source: Tensor, op: Op) -> Tensor:
    perm = op.attributes.get("perm")
    order = (
        tuple(int(p) for p in perm)
        if isinstance(perm, tuple)
        else tuple(reversed(range(len(source.dims))))
    )
    before = source.stored_permutation or tuple(range(len(source.dims)))
    return replace(
        source,
        dims=tuple(source.dims[p] for p in order),
        stored_permutation=tuple(before[p] for p in order),
        source=source.name,
    )
