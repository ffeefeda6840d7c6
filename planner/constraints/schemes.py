"""Ways to split a whole network that people know by name, as restrictions of a lowered problem.

A scheme says what each mesh axis splits: the batch, the tokens of a sequence, weights, or the
experts of a mixture. Every node keeps the candidates that follow it; the solver has the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from costmodel.redistribution import UNREACHABLE_S
from ir.factor_roles import (
    Tokens,
    batch_factors,
    expert_factors,
    token_dims,
    token_factors,
    weight_factors,
)
from ir.graph import Op, OpGraph, Role
from ir.graph_rules import rule_of
from ir.ops import Engine, lookup
from ir.ops.experts import slot_tensors
from planner.candidates.columns import BoolArray
from planner.candidates.layout_tables import LayoutPair
from planner.candidates.offers import Assignment
from planner.candidates.operators import OpCandidates
from planner.lowering.lowered import Lowered, Node, NodeKind
from planner.solvers import best_among

__all__ = ["InexpressibleError", "Scheme", "choice_of"]

IndexArray = NDArray[np.intp]
Split = frozenset[int]


class InexpressibleError(Exception):
    """A scheme that model, devices or dialect do not allow; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to split everything that people know by name."""

    name: str
    batch_axes: tuple[int, ...]
    """Mesh axes that split the batch."""
    model_axes: tuple[int, ...]
    """Mesh axes that split weights in use."""
    shard_weights: bool
    """Weights at rest are split over all devices and gathered for use."""
    context_axes: tuple[int, ...] = ()
    """Mesh axes that split the tokens of every sequence; attention gathers keys and values."""
    expert_axes: tuple[int, ...] = ()
    """Of all those the axes over which experts are spread; between the exchanges of their tokens
    they split experts and nothing else."""
    whole_experts: bool = False
    """Axes that split weights leave those of experts whole and split their tokens instead, but for
    axes over which experts are spread."""


def choice_of(lowered: Lowered, scheme: Scheme, where: Mapping[str, int]) -> tuple[int, ...]:
    """The fastest choice that follows a scheme, memory aside.

    Args:
        lowered: the problem.
        scheme: what the axes of its mesh split.
        where: the dimension that holds the batch, by tensor.

    Raises:
        InexpressibleError: some node has no candidate that follows it, or none can be reached.
    """
    rules = _Allowed(lowered, scheme, where)
    allowed = [rules.of(node, i) for i, node in enumerate(lowered.nodes)]
    found = best_among(replace(lowered.problem, memory_limit_bytes=math.inf), allowed)
    if found.choice is None or found.cost_s >= UNREACHABLE_S:
        raise InexpressibleError("its layouts cannot be reached from one another here")
    return found.choice


@dataclass(frozen=True, slots=True)
class _Factors:
    """What factors of an operator stand for."""

    batch: int | None
    tokens: Split
    weight: Split
    """Of the weight of a product, where the scheme splits weights in use."""
    experts: Split
    """None outside the slots of experts."""

    @property
    def flat(self) -> bool:
        """Whether batch and tokens are one dimension."""
        return self.batch is not None and self.batch in self.tokens


class _Allowed:
    """Candidates of a node that follow a scheme."""

    def __init__(self, lowered: Lowered, scheme: Scheme, where: Mapping[str, int]) -> None:
        self.lowered, self.scheme, self.where = lowered, scheme, where
        graph = lowered.liveness.graph
        self.ops = {op.name: op for op in graph.ops}
        self.sizes = lowered.problem.sizes
        self.tokens: Tokens = {}
        self.slots: frozenset[str] = frozenset()
        if scheme.context_axes or scheme.expert_axes or scheme.whole_experts:
            self.tokens, self.slots = token_dims(graph), graph.once("slots", slot_tensors)
        self.expert_weights = self._weights_of_experts(graph)
        self._known: dict[tuple[object, ...], BoolArray] = {}
        self._layouts: dict[tuple[object, ...], IndexArray] = {}
        self._tests: Mapping[NodeKind, Callable[[Node, int], IndexArray]] = MappingProxyType(
            {
                NodeKind.OPERATOR: self._operator,
                NodeKind.TENSOR: self._layout,
                NodeKind.PARAMETER: self._layout,
                NodeKind.INPUT: lambda _, size: np.arange(size),
            }
        )

    def of(self, node: Node, index: int) -> IndexArray:
        """Allowed candidates of one node; what is kept is never computed again."""
        keep = self._tests[node.kind](node, self.sizes[index])
        keep = keep[~node.columns.recompute[keep]]
        if not len(keep):
            raise InexpressibleError(self._reason(node))
        return keep

    def _weights_of_experts(self, graph: OpGraph) -> frozenset[str]:
        inside = (op for op in graph.ops if self.slots.intersection(op.inputs))
        return frozenset(
            name
            for op in inside
            for name in op.inputs
            if name and graph.tensors[name].role is Role.PARAMETER
        )

    @property
    def _pieces(self) -> int:
        return math.prod(self.lowered.setting.mesh.sizes[a] for a in self.scheme.batch_axes)

    def _reason(self, node: Node) -> str:
        pieces, batch = self._pieces, self.lowered.liveness.graph.batch
        if batch % pieces:
            return f"the batch of {batch} does not split {pieces} ways"
        return f"{node.kind} {node.name} has no candidate that follows it"

    def _operator(self, node: Node, size: int) -> IndexArray:
        if node.candidates is None:
            return np.arange(size)
        op = self.ops[node.name]
        tensors = (*op.inputs, *op.outputs)
        # Operators that share candidates have one rule.
        places = ((self.where.get(n), self.tokens.get(n), n in self.slots) for n in tensors)
        key = (id(node.candidates), *places)
        if key not in self._known:
            factors = self._factors(op)
            every = node.candidates.assignments
            fine = np.array([self._follows(each, factors) for each in every], dtype=np.bool_)
            self._known[key] = fine
        keep = node.columns.having(self._known[key])
        return keep if len(keep) else node.columns.having(self._repeated(op, node.candidates))

    def _repeated(self, op: Op, found: OpCandidates) -> BoolArray:
        """The assignment that does the same work on every device.

        It stands in for an operator that the target cannot split, such as a broadcast of a
        parameter along the batch, but not for products: a scheme that repeats these is another.
        """
        divides = self.lowered.liveness.graph.batch % self._pieces == 0
        may = divides and lookup(op.kind).engine is not Engine.MATRIX
        return np.array([may and all(f < 0 for f in each) for each in found.assignments])

    def _factors(self, op: Op) -> _Factors:
        graph = self.lowered.liveness.graph
        tokens = token_factors(op, graph, self.tokens)
        # Of the tokens of queries and those of keys only the former are of the result.
        made = frozenset(f for m in rule_of(op, graph).results for dim in m or () for f in dim)
        is_routed = not self.slots.isdisjoint(op.inputs) and self.slots.issuperset(op.outputs)
        return _Factors(
            next(iter(batch_factors(op, graph, self.where)), None),
            (tokens & made) or tokens,
            weight_factors(op, graph) if self.scheme.model_axes else frozenset(),
            expert_factors(op, graph, self.slots) if is_routed else frozenset(),
        )

    def _follows(self, assignment: Assignment, factors: _Factors) -> bool:
        scheme, batch = self.scheme, factors.batch
        spread = set(scheme.expert_axes) if factors.experts else set()
        if any(assignment[a] not in factors.experts for a in spread):
            return False
        on_batch = [assignment[a] for a in scheme.batch_axes if a not in spread]
        on_context = [assignment[a] for a in scheme.context_axes if a not in spread]
        on_model = [assignment[a] for a in scheme.model_axes if a not in spread]
        return (
            all(f < 0 if batch is None else f == batch for f in on_batch)
            and all(f in factors.tokens if factors.tokens else f < 0 for f in on_context)
            and self._model_follows(on_model, factors)
        )

    def _model_follows(self, on_model: Sequence[int], factors: _Factors) -> bool:
        batch = factors.batch
        if factors.experts and self.scheme.whole_experts:
            return all(f == batch for f in on_model)
        if factors.weight:
            fine = factors.weight - factors.experts
            if factors.flat and not factors.experts:
                fine |= factors.tokens
            return all(f in fine for f in on_model)
        barred = factors.experts | (frozenset() if factors.flat else {batch})
        return all(f < 0 or f not in barred for f in on_model)

    def _layout(self, node: Node, size: int) -> IndexArray:
        """Tensors that share a port share its allowed layouts."""
        name = node.name
        places = (self.where.get(name), self.tokens.get(name), name in self.slots)
        key = (id(node.layouts), id(node.columns), *places, name in self.expert_weights)
        if key not in self._layouts:
            if node.kind is NodeKind.PARAMETER:
                self._layouts[key] = self._parameter(node, size)
            else:
                self._layouts[key] = self._shared(node, size)
        return self._layouts[key]

    def _shared(self, node: Node, size: int) -> IndexArray:
        states = _states(node, size)
        if len(states) == 1:
            return np.arange(1)
        if node.name in self.slots:
            fine = [i for i, s in enumerate(states) if self._is_in_slots(s)]
        else:
            fine = [i for i, s in enumerate(states) if self._is_split(node.name, s)]
        return np.array(fine, dtype=np.intp)

    def _is_in_slots(self, state: LayoutPair) -> bool:
        """Whether axes split experts or slots, as before and behind the exchange."""
        experts, slots = (set(dim) for dim in state.forward.dims[:2])
        needed = {*self.scheme.batch_axes, *self.scheme.context_axes}
        return needed <= experts | slots and experts <= set(self.scheme.expert_axes)

    def _is_split(self, name: str, state: LayoutPair) -> bool:
        scheme, dims, place = self.scheme, state.forward.dims, self.where.get(name)
        along = self.tokens.get(name, frozenset())
        if place is None:
            return not set(scheme.batch_axes) & set(state.forward.split_axes)
        context = set(scheme.context_axes)
        if not all(any(axis in dims[d] for d in along) for axis in context if along):
            return False
        if place in along:
            return set(scheme.batch_axes) <= set(dims[place])
        others = {axis for dim in dims[place + 1 :] for axis in dim} - context
        return dims[place] == scheme.batch_axes and (bool(scheme.model_axes) or not others)

    def _parameter(self, node: Node, size: int) -> IndexArray:
        states = _states(node, size)
        spread = set(self.scheme.expert_axes) if node.name in self.expert_weights else set()
        fine = [i for i, s in enumerate(states) if set(s.forward.dims[0]) >= spread or not spread]
        if self.scheme.shard_weights:
            return self._most_split([(i, states[i]) for i in fine])
        replicas = {*self.scheme.batch_axes, *self.scheme.context_axes}
        if spread and self.scheme.whole_experts:
            replicas |= set(self.scheme.model_axes)
        replicas -= spread
        kept = [i for i in fine if not replicas & set(states[i].forward.split_axes)]
        return np.array(kept, dtype=np.intp)

    def _most_split(self, states: Sequence[tuple[int, LayoutPair]]) -> IndexArray:
        """Those in as many pieces as there can be, and whole in use."""
        sizes = self.lowered.setting.mesh.sizes
        cut_counts = self.lowered.setting.dialect.cut_counts
        usable = [
            (i, math.prod(s.forward.shards(sizes)))
            for i, s in states
            if not cut_counts or not s.gradient.split_axes
        ]
        most = max((pieces for _, pieces in usable), default=0)
        return np.array([i for i, pieces in usable if pieces == most], dtype=np.intp)


def _states(node: Node, size: int) -> Sequence[LayoutPair]:
    return [node.layout(candidate) for candidate in range(size)]
