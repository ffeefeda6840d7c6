"""What a user may rule out: sequence parallel or not, cuts of the tokens that attention asks for,
all devices of a mesh or none.

Which dimensions run along the tokens of a sequence follows from the inputs through the sharding
rules: the second dimension of indices of tokens, or of activations that come in three dimensions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ir.factor_roles import Tokens, token_dims, token_factors
from ir.graph import Op, OpGraph
from ir.ops import Engine, OpView, lookup
from ir.plan import PlannedOperator
from planner.lowering.lowered import Lowered, narrowed
from planner.lowering.pricing import SLICES
from planner.reduction.restriction import IndexArray
from planner.request import RequestError, SearchRequest
from planner.solvers import AS_GENERATED, WITHOUT_POSITIONS
from topology.mesh import Mesh

AxisArray = NDArray[np.int64]
"""The factor that each candidate gives to every mesh axis, shape (C, axes)."""


@dataclass(frozen=True, slots=True)
class RuledOut:
    """What is left out."""

    sequence_parallel: str = "auto"
    fully_use_devices: bool = False
    tokens: Tokens | None = None
    """Needed for sequence and context parallelism."""
    as_generated: bool = False
    """What own searches of a framework do not draw up: cuts of the channels that a convolution
    makes."""
    context_parts: int | None = None
    """In how many attention cuts the tokens of its queries; None for any number."""
    whole_positions: bool = False
    """Windows keep their positions whole, but for an operator that is pinned otherwise."""

    @property
    def is_empty(self) -> bool:
        whole = self.fully_use_devices or self.as_generated or self.whole_positions
        return self.sequence_parallel == "auto" and not whole and self.context_parts is None

    def can_be_on(self, mesh: Mesh) -> bool:
        """Whether the axes of a mesh make as many parts of the context as are wanted."""
        return self.context_parts is None or self.context_parts in parts_on([mesh])

    def meshes(self, meshes: Sequence[Mesh]) -> tuple[Mesh, ...]:
        """Those on which the context can be cut so.

        Raises:
            RequestError: there is none.
        """
        found = tuple(mesh for mesh in meshes if self.can_be_on(mesh))
        if not found:
            raise RequestError(
                f"no mesh of {meshes[0].size} devices cuts the context into {self.context_parts}\n"
                f"  at:  --context-parallel {self.context_parts}\n"
                f"  fix: use {one_of(parts_on(meshes))}"
            )
        return found


def parts_on(meshes: Sequence[Mesh]) -> tuple[int, ...]:
    """The numbers of parts that axes of some meshes make, one part included."""
    return tuple(sorted({
        math.prod(group)
        for mesh in meshes
        for count in range(len(mesh.sizes) + 1)
        for group in itertools.combinations(mesh.sizes, count)
    }))  # fmt: skip


def one_of(parts: Sequence[int]) -> str:
    """What may stand after --context-parallel, such as `off, 2 or 4`."""
    words = ["off" if each == 1 else str(each) for each in parts]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def ruled_out(request: SearchRequest, graph: OpGraph) -> RuledOut:
    """What a request leaves out of the candidates for a graph.

    Raises:
        RequestError: the graph has no sequence of tokens or no attention, and the request speaks of
            one, or it contradicts itself.
    """
    as_generated = request.solver in AS_GENERATED
    asked = {"--sequence-parallel": request.sequence_parallel,
             "--context-parallel": request.context_parallel}  # fmt: skip
    said = next((f"{name} {value}" for name, value in asked.items() if value != "auto"), None)
    drawn_up = request.solver in WITHOUT_POSITIONS and request.cost == SLICES
    whole = drawn_up and not request.cut_positions
    if said is None:
        return RuledOut(
            fully_use_devices=request.fully_use_devices, as_generated=as_generated,
            whole_positions=whole,
        )  # fmt: skip
    tokens = token_dims(graph)
    if not tokens:
        raise RequestError(
            "the model has no sequence of tokens: no input is of the form (batch, tokens) or "
            f"(batch, tokens, width)\n  at:  {said}\n  fix: leave it out"
        )
    parts = _context_parts(request, graph, tokens)
    return RuledOut(
        request.sequence_parallel, request.fully_use_devices, tokens, as_generated, parts, whole
    )


def _context_parts(request: SearchRequest, graph: OpGraph, tokens: Tokens) -> int | None:
    asked = request.context_parallel
    if asked == "auto":
        return None
    if not any(_cuts_context(op, graph, tokens) for op in graph.ops):
        raise RequestError(
            "the model has no operator that is attention over tokens\n"
            f"  at:  --context-parallel {asked}\n"
            "  fix: leave it out, or leave --attention out where attention is taken apart"
        )
    parts = 1 if asked == "off" else int(asked)
    if parts > 1 and request.sequence_parallel == "off":
        raise RequestError(
            "without sequence parallelism nothing is cut along its tokens\n"
            f"  at:  --context-parallel {asked} --sequence-parallel off\n"
            "  fix: leave one of the two out"
        )
    return parts


def _cuts_context(op: Op, graph: OpGraph, tokens: Tokens) -> bool:
    """Whether an operator is attention with queries along tokens."""
    return lookup(op.kind).engine is Engine.ATTENTION and bool(token_factors(op, graph, tokens))


def context_notes(
    graph: OpGraph,
    mesh: Sequence[tuple[str, int, int]],
    operators: Sequence[PlannedOperator],
    ring: str = "off",
) -> tuple[str, ...]:
    """Into how many parts attention of a plan cuts the tokens of its queries, for the reader.

    Args:
        graph: of the plan.
        mesh: name, size and tier of every axis.
        operators: of the plan, in the order of the graph.
        ring: `auto` where keys and values may go round.
    """
    tokens = token_dims(graph)
    sizes = {name: size for name, size, _ in mesh}
    found = {
        math.prod(sizes[axis] for axis, factor in planned.split if factor in factors)
        for op, planned in zip(graph.ops, operators, strict=True)
        if _cuts_context(op, graph, tokens)
        for factors in (token_factors(op, graph, tokens),)
    }
    if max(found, default=1) == 1:
        return ()
    parts = " or ".join(map(str, sorted(found)))
    note = f"context parallelism: attention cuts the tokens of its queries into {parts}"
    how = "are gathered for it" if ring == "off" else "ring attention where that is faster"
    return (f"{note}, keys and values {how}",)


def without(lowered: Lowered, left_out: RuledOut) -> Lowered:
    """The problem with the candidates that are left."""
    return narrowed(lowered, left_by(lowered, left_out))


def left_by(lowered: Lowered, left_out: RuledOut) -> dict[int, IndexArray]:
    """The candidates that are left, of nodes that lose some."""
    if left_out.is_empty or lowered.setting.mesh.size == 1:
        return {}
    graph, origin, along_of = lowered.liveness.graph, lowered.liveness.origin, left_out.tokens or {}
    tokens = {n: along_of.get(origin(n).name, frozenset()) for n in graph.tensors}
    ops = {op.name: op for op in graph.ops}
    allowed: dict[int, IndexArray] = {}
    for number, node in enumerate(lowered.nodes):
        found = node.candidates
        if found is None:
            continue
        op = ops[node.name]
        made = _made_channels(op, graph) if left_out.as_generated else frozenset()
        if left_out.whole_positions:
            made |= {window.factor for window in lookup(op.kind).rule(OpView(op, graph)).windows}
        along = token_factors(op, graph, tokens)
        chosen = np.array(found.assignments, dtype=np.int64)[node.columns.assignment]
        keep = _kept(chosen, op, along, made, left_out)
        if left_out.context_parts is not None and _cuts_context(op, graph, tokens):
            mesh = lowered.setting.mesh
            keep = _of_context(chosen, keep, along, left_out.context_parts, mesh)
        if len(keep) < len(chosen):
            allowed[number] = keep
    return allowed


def _made_channels(op: Op, graph: OpGraph) -> frozenset[int]:
    """Factors of a convolution's weight alone that are whole channels of its result: a transposed
    one has them second.
    """
    if lookup(op.kind).engine is not Engine.CONVOLUTION:
        return frozenset()
    read, weight, *_ = lookup(op.kind).rule(OpView(op, graph)).operands
    factors = {factor for dim in read or () for factor in dim}
    return frozenset(factor for dim in (weight or ())[:2] for factor in dim) - factors


def _kept(
    chosen: AxisArray, op: Op, tokens: frozenset[int], made: frozenset[int], left_out: RuledOut
) -> IndexArray:
    """Candidates that are left, by what they do with every axis; all if none would be."""
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


def _of_context(
    chosen: AxisArray, keep: IndexArray, tokens: frozenset[int], parts: int, mesh: Mesh
) -> IndexArray:
    """Of some candidates of attention those that cut its tokens into so many parts."""
    along = np.isin(chosen, list(tokens))
    counts = np.where(along, np.array(mesh.sizes, dtype=np.int64), 1).prod(axis=1)
    fitting = keep[(counts == parts)[keep]]
    if not len(fitting):
        raise RequestError(
            f"attention cannot cut its tokens into {parts}\n  at:  --context-parallel {parts}\n"
            "  fix: use a divisor of the number of tokens"
        )
    return np.asarray(fitting)
