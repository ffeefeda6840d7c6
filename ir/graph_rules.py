"""The sharding rules of a graph's operators, each made once."""

from __future__ import annotations

from ir.graph import Op, OpGraph
from ir.ops import OpView, lookup
from ir.rule import ShardingRule


def rule_of(op: Op, graph: OpGraph) -> ShardingRule:
    """The rule of an operator of the graph."""
    known = graph.once("rules", _none_yet)
    found = known.get(op.name)
    if found is None or found[0] is not op:
        found = known[op.name] = op, lookup(op.kind).rule(OpView(op, graph))
    return found[1]


def _none_yet(_: OpGraph) -> dict[str, tuple[Op, ShardingRule]]:
    return {}
