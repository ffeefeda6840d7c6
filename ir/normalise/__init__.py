"""The normal form: what exporters wrote apart is brought together, so that rules, costs and memory
mean something.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ir.graph import OpGraph, Role
from ir.normalise.attention import recognise_attention
from ir.normalise.ends import add_ends
from ir.normalise.experts import group_experts
from ir.normalise.fusion import fuse_elementwise
from ir.normalise.identities import drop_identities
from ir.normalise.parameters import fold_parameters
from ir.normalise.shift import stop_shift_gradients
from ir.normalise.statistics import use_stored_statistics

__all__ = ["add_ends", "main_dtype", "normalise", "use_stored_statistics", "with_dtype"]


def normalise(
    graph: OpGraph, *, fused_attention: bool = True, apart: Collection[str] = ()
) -> OpGraph:
    """The graph in normal form, without ends.

    Args:
        graph: as imported, with the batch that is planned for.
        fused_attention: recognise decomposed attention as one operator, as a fused kernel runs it.
        apart: names of operators that are fused with no other.
    """
    graph = fold_parameters(drop_identities(graph))
    graph = group_experts(graph)
    if fused_attention:
        graph = recognise_attention(graph)
    graph = fuse_elementwise(stop_shift_gradients(graph), apart)
    graph.validate()
    return graph


def main_dtype(graph: OpGraph) -> str:
    """Element type that most parameters have; without parameters that of the first floating
    tensor.
    """
    weight: dict[str, int] = {}
    for tensor in graph.parameters:
        weight[tensor.dtype] = weight.get(tensor.dtype, 0) + tensor.elements
    if weight:
        return max(sorted(weight), key=lambda d: weight[d])
    return next(
        (t.dtype for t in graph.tensors.values() if t.is_float and t.role is not Role.CONSTANT),
        "float32",
    )


def with_dtype(graph: OpGraph, dtype: str) -> OpGraph:
    """The graph with its main element type replaced; islands of another precision stay."""
    old = main_dtype(graph)
    if old == dtype:
        return graph
    tensors = {
        n: replace(t, dtype=dtype) if t.dtype == old else t for n, t in graph.tensors.items()
    }
    return replace(graph, tensors=tensors)
