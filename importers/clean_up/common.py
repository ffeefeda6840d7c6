"""Operators that compute the same from the same are one."""

from __future__ import annotations

from dataclasses import replace

from ir.graph import Op, OpGraph
from ir.ops import is_known, lookup

_DRAWN = frozenset(
    {
        "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike",
    }
)  # fmt: skip
"""Each of them draws numbers of its own."""


def without_duplicates(graph: OpGraph) -> OpGraph:
    """The graph with equal operators merged.

    What joins a fused kernel stays apart: each kernel computes it again at less cost than one
    writes it for all.
    """
    first: dict[tuple[object, ...], Op] = {}
    alias: dict[str, str] = {}
    kept: list[Op] = []
    for original in graph.ops:
        op = replace(original, inputs=tuple(alias.get(n, n) for n in original.inputs))
        twin = first.setdefault(_signature(op, graph), op) if _may_merge(op, graph) else op
        if twin is op:
            kept.append(op)
        else:
            alias.update(zip(op.outputs, twin.outputs, strict=True))
    return graph.with_ops(kept)


def _may_merge(op: Op, graph: OpGraph) -> bool:
    if not is_known(op.kind) or op.kind in _DRAWN or op.parts:
        return False
    return not lookup(op.kind).fusible and not any(n in graph.outputs for n in op.outputs)


def _signature(op: Op, graph: OpGraph) -> tuple[object, ...]:
    results = tuple((graph.tensors[n].dims, graph.tensors[n].dtype) for n in op.outputs if n)
    return op.kind, op.inputs, tuple(sorted(op.attributes.items())), results
