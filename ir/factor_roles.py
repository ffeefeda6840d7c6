"""Which factors of an operator are the batch, the tokens of a sequence, and those of its weight."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ir.batch import BatchError, batch_dims
from ir.graph import Op, OpGraph, Role, Tensor
from ir.graph_rules import rule_of
from ir.ops import Engine, lookup

Tokens = Mapping[str, frozenset[int]]
"""By tensor the dimensions that run along tokens."""


def batch_places(graph: OpGraph) -> Mapping[str, int]:
    """The dimension of every tensor that is the batch; empty where it cannot be followed."""
    try:
        return batch_dims(graph)
    except BatchError:
        return {}


def weight_factors(op: Op, graph: OpGraph) -> frozenset[int]:
    """Factors of the weight of a matrix product; none of another operator."""
    if lookup(op.kind).engine is not Engine.MATRIX:
        return frozenset()
    return parameter_factors(op, graph)


def parameter_factors(op: Op, graph: OpGraph) -> frozenset[int]:
    """Factors of the parameters that an operator reads."""
    rule = rule_of(op, graph)
    return frozenset(
        f
        for name, mapping in zip(op.inputs, rule.operands, strict=True)
        if name and graph.tensors[name].role is Role.PARAMETER and mapping is not None
        for dim in mapping
        for f in dim
        if rule.sizes[f] > 1
    )


def batch_factors(op: Op, graph: OpGraph, where: Mapping[str, int]) -> frozenset[int]:
    """The factor of an operator that is the batch, if it has one."""
    rule = rule_of(op, graph)
    pairs = (
        *zip(op.inputs, rule.operands, strict=True),
        *zip(op.outputs, rule.results, strict=True),
    )
    for name, mapping in pairs:
        if name in where and mapping is not None and mapping[where[name]]:
            return frozenset({mapping[where[name]][0]})
    return frozenset()


def expert_factors(op: Op, graph: OpGraph, slots: Collection[str]) -> frozenset[int]:
    """The factor that tells experts apart, of an operator that reads their slots."""
    return batch_factors(op, graph, dict.fromkeys(slots, 0))


def token_dims(graph: OpGraph) -> Tokens:
    """Dimensions along the tokens of a sequence; empty if the model has none."""
    found: dict[str, frozenset[int]] = {}
    for name in graph.inputs:
        if _is_sequence(graph.tensors[name]):
            found[name] = frozenset({1})
    for op in graph.ops:
        factors = token_factors(op, graph, found)
        for name, mapping in zip(op.outputs, rule_of(op, graph).results, strict=True):
            dims = frozenset(
                place for place, dim in enumerate(mapping or ()) if factors.intersection(dim)
            )
            if dims:
                found[name] = dims
    return found


def _is_sequence(tensor: Tensor) -> bool:
    rank = 3 if tensor.is_float else 2
    return len(tensor.dims) == rank and tensor.dims[1] > 1


def token_factors(op: Op, graph: OpGraph, tokens: Tokens) -> frozenset[int]:
    """Factors of an operator that split tokens."""
    return frozenset(
        factor
        for name, mapping in zip(op.inputs, rule_of(op, graph).operands, strict=True)
        for place in tokens.get(name, ())
        for factor in (mapping or ((),) * (place + 1))[place]
    )
