"""The sharding rules of a graph's operators, each made once; equal composites share theirs."""

from __future__ import annotations

from collections.abc import Hashable

from ir.graph import Op, OpGraph
from ir.ops import FUSED, OpView, lookup
from ir.rule import ShardingRule
from ir.signatures import signature


def rule_of(op: Op, graph: OpGraph) -> ShardingRule:
    """The rule of an operator of the graph."""
    known = graph.once("rules", _none_yet)
    found = known.get(op.name)
    if found is None or found[0] is not op:
        found = known[op.name] = op, _made(op, graph)
    return found[1]


def _made(op: Op, graph: OpGraph) -> ShardingRule:
    if op.kind != FUSED:
        return lookup(op.kind).rule(OpView(op, graph))
    known, key = graph.once("composite rules", _no_composites), signature(op, graph.tensors)
    if key not in known:
        known[key] = lookup(op.kind).rule(OpView(op, graph))
    return known[key]


def _none_yet(_: OpGraph) -> dict[str, tuple[Op, ShardingRule]]:
    return {}


def _no_composites(_: OpGraph) -> dict[Hashable, ShardingRule]:
    return {}
