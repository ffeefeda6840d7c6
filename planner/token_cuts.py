"""What a user may rule out: sequence parallel or not, all devices of a mesh or none.

Which dimensions run along the tokens of a sequence follows from the inputs through the sharding
rules: the second dimension of indices of tokens, or of activations that come in three dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ir.graph import Op, OpGraph, Tensor
from ir.ops import Engine, OpView, lookup
from ir.rule import ShardingRule
from planner.candidates import OpCandidates
from planner.fewer import narrowed
from planner.lowered import Lowered
from planner.request import RequestError, SearchRequest
from planner.restriction import IndexArray

Tokens = Mapping[str, frozenset[int]]
AS_MINDSPORE = frozenset({"mindspore_propagation", "mindspore_elimination"})
"""Solvers that do what a search of MindSpore does, and choose from what it draws up."""
"""By tensor the dimensions that run along tokens."""


def token_dims(graph: OpGraph) -> Tokens:
    """Dimensions along the tokens of a sequence; empty if the model has none."""
    found: dict[str, frozenset[int]] = {}
    for name in graph.inputs:
        if _is_sequence(graph.tensors[name]):
            found[name] = frozenset({1})
    for op in graph.ops:
        factors = _token_factors(op, graph, found)
        for name, mapping in zip(op.outputs, _rule(op, graph).results, strict=True):
            dims = frozenset(
                place for place, dim in enumerate(mapping or ()) if factors.intersection(dim)
            )
            if dims:
                found[name] = dims
    return found


def _is_sequence(tensor: Tensor) -> bool:
    rank = 3 if tensor.is_float else 2
    return len(tensor.dims) == rank and tensor.dims[1] > 1


def _rule(op: Op, graph: OpGraph) -> ShardingRule:
    return lookup(op.kind).rule(OpView(op, graph))


def _token_factors(op: Op, graph: OpGraph, tokens: Tokens) -> frozenset[int]:
    """Factors of an operator that split tokens."""
    return frozenset(
        factor
        for name, mapping in zip(op.inputs, _rule(op, graph).operands, strict=True)
        for place in tokens.get(name, ())
        for factor in (mapping or ((),) * (place + 1))[place]
    )


@dataclass(frozen=True, slots=True)
class RuledOut:
    """What is left out."""

    sequence_parallel: str = "auto"
    fully_use_devices: bool = False
    tokens: Tokens | None = None
    """Needed for sequence parallelism."""
    as_generated: bool = False
    """What MindSpore's searches do not draw up: cuts of the channels that a convolution makes."""

    @property
    def is_empty(self) -> bool:
        whole = self.fully_use_devices or self.as_generated
        return self.sequence_parallel == "auto" and not whole


def ruled_out(request: SearchRequest, graph: OpGraph) -> RuledOut:
    """What a request leaves out of the candidates for a graph.

    Raises:
        RequestError: the graph has no sequence of tokens, and the request speaks of one.
    """
    as_generated = request.solver in AS_MINDSPORE
    if request.sequence_parallel == "auto":
        return RuledOut(fully_use_devices=request.fully_use_devices, as_generated=as_generated)
    tokens = token_dims(graph)
    if not tokens:
        raise RequestError(
            "the model has no sequence of tokens: no input is of the form (batch, tokens) or "
            "(batch, tokens, width)\n"
            f"  at:  --sequence-parallel {request.sequence_parallel}\n  fix: leave it out"
        )
    return RuledOut(request.sequence_parallel, request.fully_use_devices, tokens, as_generated)


def without(
    lowered: Lowered, left_out: RuledOut, plain: Callable[[str], str] = lambda name: name
) -> Lowered:
    """The problem with the candidates that are left.

    Args:
        lowered: the problem.
        left_out: what is not wanted.
        plain: the name of a tensor in the graph that `left_out.tokens` speaks of.
    """
    return narrowed(lowered, left_by(lowered, left_out, plain))


def left_by(
    lowered: Lowered, left_out: RuledOut, plain: Callable[[str], str] = lambda name: name
) -> dict[int, IndexArray]:
    """The candidates that are left, of nodes that lose some; arguments as for `without`."""
    if left_out.is_empty or lowered.setting.mesh.size == 1:
        return {}
    graph = lowered.liveness.graph
    tokens = {n: (left_out.tokens or {}).get(plain(n), frozenset()) for n in graph.tensors}
    ops = {op.name: op for op in graph.ops}
    allowed: dict[int, IndexArray] = {}
    for number, (node, size) in enumerate(zip(lowered.nodes, lowered.problem.sizes, strict=True)):
        found = node.candidates
        if found is None:
            continue
        op = ops[node.name]
        made = _made_channels(op, graph) if left_out.as_generated else frozenset()
        keep = _kept(found, op, _token_factors(op, graph, tokens), made, left_out)
        count = len(found.assignments)
        if len(keep) < count:
            allowed[number] = np.concatenate([keep + start for start in range(0, size, count)])
    return allowed


def _made_channels(op: Op, graph: OpGraph) -> frozenset[int]:
    """Factors of a convolution's weight alone that are whole channels of its result."""
    if op.kind != "Conv":
        return frozenset()
    read, weight, *_ = _rule(op, graph).operands
    factors = {factor for dim in read or () for factor in dim}
    return frozenset((weight or ((),))[0]) - factors


def _kept(
    found: OpCandidates, op: Op, tokens: frozenset[int], made: frozenset[int], left_out: RuledOut
) -> IndexArray:
    """Candidates that are left; all if none would be."""
    chosen = np.array(found.assignments, dtype=np.int64)
    keep = np.ones(len(chosen), dtype=bool)
    repeats = chosen < 0
    if left_out.fully_use_devices:
        keep &= ~repeats.any(axis=1) | repeats.all(axis=1)
    if made:
        keep &= ~np.isin(chosen, list(made)).any(axis=1)
    if left_out.sequence_parallel == "off":
        keep &= ~np.isin(chosen, list(tokens)).any(axis=1)
    if left_out.sequence_parallel == "on" and tokens and lookup(op.kind).engine is Engine.VECTOR:
        keep &= ~repeats.any(axis=1)
    return np.flatnonzero(keep) if keep.any() else np.arange(len(chosen))
