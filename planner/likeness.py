"""Which published runs a plan is like: by what it trains, and how attention is cut."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ir.graph import Op, OpGraph
from ir.ops import Engine, OpView, lookup
from ir.ops.experts import slot_tensors
from ir.ops.linear_attention import RECURRENT
from ir.published import CONTEXT_PARALLEL, DENSE, ROUTED

__all__ = ["KEYS", "VALUES", "kind_of", "query_rows"]

KEYS, VALUES = 1, 2
"""Operands of attention."""


def kind_of(graph: OpGraph, split: Mapping[str, Collection[int]]) -> str:
    """One of `ir.published.KINDS`, or nothing where rows mix without softmax: no published run of
    which the operators were priced is like that.

    Args:
        graph: of the plan.
        split: the factors that each operator splits, by its name.
    """
    if any(op.kind in RECURRENT for op in graph.ops):
        return ""
    if graph.once("slots", slot_tensors):
        return ROUTED
    rows = ((op.name, query_rows(op, graph)) for op in graph.ops)
    cut = any(found and found[0].intersection(split.get(name, ())) for name, found in rows)
    return CONTEXT_PARALLEL if cut else DENSE


def query_rows(op: Op, graph: OpGraph) -> tuple[frozenset[int], int] | None:
    """Factors of the rows of queries, and which dimension rows are; None if an operator is no
    attention whose keys can go round.
    """
    entry = lookup(op.kind)
    if entry.engine is not Engine.ATTENTION or len(op.outputs) > 1:
        return None
    rule = entry.rule(OpView(op, graph))
    if len(rule.operands) <= VALUES:
        return None
    query, key, value = (rule.operands[i] for i in range(3))
    if query is None or key is None or value is None or len(query) != len(key):
        return None
    every = [frozenset(f for dim in m for f in dim) for m in (query, key, value)]
    summed = (every[1] & every[2]) - every[0]
    for dim, (rows, keys) in enumerate(zip(query, key, strict=True)):
        if summed and frozenset(keys) == summed and rows:
            return frozenset(rows), dim
    return None
