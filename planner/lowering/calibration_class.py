"""Which published runs a plan is like: by what it trains, how attention is cut, and by what its
operators are; or why none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from enum import Enum, auto

from costmodel.published_steps import published_steps
from costmodel.software import GENERIC, SoftwareProfile
from ir.dtypes import dtype_bytes
from ir.graph import Op, OpGraph, Role
from ir.ops import Engine, OpView, lookup
from ir.ops.experts import slot_tensors
from ir.ops.linear_attention import RECURRENT
from ir.plan_estimate import Published
from ir.published import CONTEXT_PARALLEL, DENSE, ROUTED
from planner.candidates.operator_cost import Product
from topology.cluster import Chip

__all__ = ["KEYS", "VALUES", "compared", "kind_of", "query_rows"]

KEYS, VALUES = 1, 2
"""Operands of attention."""

_HALF_BYTES = 2.0
_LEAST_MATRIX, _LEAST_ATTENTION, _MOST_OTHER = 0.5, 0.01, 0.1
"""Shares of the computation of a forward pass: at least so much is products and attention (0.65 to
0.93 in published runs, where operators are not short), so much attention alone (0.05 and more); at
most so much is what no run had, or of products in other precisions."""


class _Part(Enum):
    """What an operator is a part of the computation as."""

    PRODUCT = auto()
    """A product with a weight."""
    ATTENTION = auto()
    OTHER = auto()
    """Convolution, recurrence, packed products: what needs a unit of its own."""
    REST = auto()
    """Element-wise operators, normalisation, lookups: what moves bytes."""


def compared(
    graph: OpGraph,
    chip: Chip,
    forward_s: Mapping[str, float],
    split: Mapping[str, Collection[int]],
    software: SoftwareProfile = GENERIC,
) -> tuple[Published | None, str]:
    """What published training runs say of a training step on such chips, or nothing and why.

    Args:
        graph: of the plan.
        chip: of the cluster.
        forward_s: seconds that each operator computes in a forward pass, by its name.
        split: the factors that each operator splits, by its name.
        software: that the step is priced for.
    """
    took = [seconds for seconds in forward_s.values() if seconds > 0]
    why = _unlike(graph, forward_s)
    if why or not took:
        return None, why or "no operator takes any time"
    mean_s = math.fsum(took) / len(took)
    return published_steps(chip, mean_s, kind_of(graph, split), software)


def _unlike(graph: OpGraph, forward_s: Mapping[str, float]) -> str:
    """How operators differ from those of transformers in 16 bits; empty if they do not."""
    spent: defaultdict[_Part, float] = defaultdict(float)
    wide_s, others = 0.0, defaultdict[str, float](float)
    for op, (part, half) in zip(graph.ops, graph.once("parts", _parts), strict=True):
        seconds = forward_s.get(op.name, 0.0)
        spent[part] += seconds
        wide_s += 0.0 if half else seconds
        if part is _Part.OTHER:
            others[op.kind] += seconds
    whole_s, matrix_s = sum(spent.values()), spent[_Part.PRODUCT] + spent[_Part.ATTENTION]
    if spent[_Part.OTHER] > _MOST_OTHER * whole_s:
        share, most = 100 * spent[_Part.OTHER] / whole_s, max(others, key=lambda k: others[k])
        return f"{share:.0f} % of the computation is in operators like {most}, which no run had"
    if spent[_Part.ATTENTION] < _LEAST_ATTENTION * whole_s:
        return "attention is less than 1 % of the computation; the runs are of transformers"
    if matrix_s < _LEAST_MATRIX * whole_s:
        share = 100 * matrix_s / whole_s
        return f"products and attention are {share:.0f} % of the computation, in the runs most"
    if wide_s > _MOST_OTHER * matrix_s:
        share = 100 * wide_s / matrix_s
        return f"{share:.0f} % of products and attention are not in 16 bits; all of the runs were"
    return ""


def _parts(graph: OpGraph) -> tuple[tuple[_Part, bool], ...]:
    """What each operator counts as, and whether its operands have 16 bits where it multiplies."""
    return tuple(_part_of(op, graph) for op in graph.ops)


def _part_of(op: Op, graph: OpGraph) -> tuple[_Part, bool]:
    """By the entry in the catalogue; products of activations with one another are attention that
    runs in several kernels.
    """
    entry, view = lookup(op.kind), OpView(op, graph)
    if entry.engine in {Engine.VECTOR, Engine.VIEW}:
        return _Part.REST, True
    first = graph.tensors[op.inputs[0]]
    half = first.is_float and dtype_bytes(first.dtype) == _HALF_BYTES
    if entry.engine is Engine.ATTENTION:
        return _Part.ATTENTION, half
    elements = graph.tensors[op.outputs[0]].elements
    product = Product.of(entry.rule(view), entry.engine, elements, float(entry.flops(view)))
    if entry.engine is not Engine.MATRIX or product is None:
        return _Part.OTHER, True
    weighed = any(found and found.role is Role.PARAMETER for found in view.inputs)
    return _Part.PRODUCT if weighed else _Part.ATTENTION, half


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
