"""What an engineer would do by hand, priced as points of the same problem.

Each baseline restricts the candidates of every node to what its scheme says and leaves the rest to
the solver, without a memory limit: what it takes is then `Problem.cost_s` of its choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from costmodel.redistribution import UNREACHABLE_S
from ir.batch import BatchError, batch_dims
from ir.graph import Op, OpGraph, Role
from ir.ops import Engine, OpView, lookup
from ir.plan import Baseline
from ir.rule import ShardingRule
from planner.dialects import Assignment
from planner.evidence import Evidence
from planner.lowered import Lowered, Node, NodeKind
from planner.ports import PortState
from planner.restriction import original_choice, restricted
from planner.solvers import Budget, solver_by_name
from topology.units import format_memory

IndexArray = NDArray[np.intp]


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


def schemes(lowered: Lowered) -> tuple[Scheme, ...]:
    """Data parallelism, the same with sharded weights, and tensor parallelism in the server."""
    axes = lowered.setting.mesh.axes
    every = tuple(range(len(axes)))
    outer = tuple(a for a in every if axes[a].tier == 0 and len({x.tier for x in axes}) > 1)
    inner = tuple(a for a in every if a not in outer)
    return (
        Scheme("data parallel", every, (), shard_weights=False),
        Scheme("sharded data parallel", every, (), shard_weights=True),
        Scheme("tensor parallel in the server", outer, inner, shard_weights=False),
    )


def batch_places(graph: OpGraph) -> Mapping[str, int] | str:
    """Dimension that holds the batch, by tensor; or why the batch cannot be followed."""
    try:
        return batch_dims(graph)
    except BatchError as error:
        return str(error).splitlines()[0]


def baselines(
    lowered: Lowered, where: Mapping[str, int] | str | None = None
) -> tuple[tuple[Baseline, tuple[int, ...] | None], ...]:
    """Every baseline with its choice, None where it cannot be expressed.

    Args:
        lowered: the problem.
        where: `batch_places` of its graph, if they are known.
    """
    where = batch_places(lowered.liveness.graph) if where is None else where
    if isinstance(where, str):
        return tuple((Baseline(s.name, False, None, None, where), None) for s in schemes(lowered))
    return tuple(_priced(lowered, scheme, where) for scheme in schemes(lowered))


def _priced(
    lowered: Lowered, scheme: Scheme, where: Mapping[str, int]
) -> tuple[Baseline, tuple[int, ...] | None]:
    try:
        choice = choice_of(lowered, scheme, where)
    except InexpressibleError as error:
        return Baseline(scheme.name, False, None, None, str(error)), None
    problem = lowered.problem
    excess = Evidence(lowered, choice).buffer_excess_bytes()
    step_s, peak = problem.cost_s(choice), problem.peak_bytes(choice) + excess
    fits = problem.fits(peak)
    limit = format_memory(problem.memory_limit_bytes)
    reason = "" if fits else f"needs {format_memory(peak)} of {limit} per device"
    return Baseline(scheme.name, fits, step_s, peak, reason), choice


def choice_of(lowered: Lowered, scheme: Scheme, where: Mapping[str, int]) -> tuple[int, ...]:
    """The fastest choice that follows a scheme, memory aside.

    Raises:
        InexpressibleError: some node has no candidate that follows it, or none can be reached.
    """
    rules = _Allowed(lowered, scheme, where)
    allowed = [rules.of(node, i) for i, node in enumerate(lowered.nodes)]
    problem = replace(restricted(lowered.problem, allowed), memory_limit_bytes=math.inf)
    found = solver_by_name("dynamic_programming").solve(problem, Budget(), None)
    if found.choice is None or found.cost_s >= UNREACHABLE_S:
        raise InexpressibleError("its layouts cannot be reached from one another here")
    return original_choice(allowed, found.choice)


class _Allowed:
    """Candidates of a node that follow a scheme."""

    def __init__(self, lowered: Lowered, scheme: Scheme, where: Mapping[str, int]) -> None:
        self.lowered, self.scheme, self.where = lowered, scheme, where
        self.ops = {op.name: op for op in lowered.liveness.graph.ops}
        self.sizes = lowered.problem.sizes
        self._known: dict[tuple[object, ...], IndexArray] = {}
        self._layouts: dict[tuple[int, int, int | None], IndexArray] = {}
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
        half = self.sizes[index] // 2 if node.recomputes else self.sizes[index]
        keep = keep[keep < half]
        if not len(keep):
            raise InexpressibleError(self._reason(node))
        return keep

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
        # Operators that share candidates have one rule.
        key = (id(node.candidates), *map(self.where.get, (*op.inputs, *op.outputs)))
        if key not in self._known:
            rule = lookup(op.kind).rule(OpView(op, self.lowered.liveness.graph))
            batch, weight = self._batch_factor(op, rule), self._weight_factors(op, rule)
            fine = [
                i
                for i, assignment in enumerate(node.candidates.assignments)
                if self._follows(assignment, batch, weight)
            ]
            self._known[key] = np.array(fine or self._repeated(op, node), dtype=np.intp)
        return self._known[key]

    def _repeated(self, op: Op, node: Node) -> list[int]:
        """The candidate that does the same work on every device.

        It stands in for an operator that the target cannot split, such as a broadcast of a
        parameter along the batch, but not for products: a scheme that repeats these is another.
        """
        divides = self.lowered.liveness.graph.batch % self._pieces == 0
        if node.candidates is None or not divides or lookup(op.kind).engine is Engine.MATRIX:
            return []
        assignments = node.candidates.assignments
        return [i for i, assignment in enumerate(assignments) if all(f < 0 for f in assignment)]

    def _follows(self, assignment: Assignment, batch: int | None, weight: frozenset[int]) -> bool:
        on_batch = [assignment[a] for a in self.scheme.batch_axes]
        fine = all(f < 0 if batch is None else f == batch for f in on_batch)
        on_model = [assignment[a] for a in self.scheme.model_axes]
        if weight:
            return fine and all(f in weight for f in on_model)
        return fine and all(f != batch or f < 0 for f in on_model)

    def _batch_factor(self, op: Op, rule: ShardingRule) -> int | None:
        pairs = (
            *zip(op.inputs, rule.operands, strict=True),
            *zip(op.outputs, rule.results, strict=True),
        )
        for name, mapping in pairs:
            if name in self.where and mapping is not None and mapping[self.where[name]]:
                return mapping[self.where[name]][0]
        return None

    def _weight_factors(self, op: Op, rule: ShardingRule) -> frozenset[int]:
        """Factors of the weight of a product, where the scheme splits weights in use."""
        entry = lookup(op.kind)
        if not self.scheme.model_axes or entry.engine is not Engine.MATRIX:
            return frozenset()
        found: set[int] = set()
        tensors = self.lowered.liveness.graph.tensors
        for name, mapping in zip(op.inputs, rule.operands, strict=True):
            if name and tensors[name].role is Role.PARAMETER and mapping is not None:
                found |= {f for dim in mapping for f in dim if rule.sizes[f] > 1}
        return frozenset(found)

    def _layout(self, node: Node, size: int) -> IndexArray:
        """Tensors that share a port share its allowed layouts."""
        dim = self.where.get(node.name)
        key = (id(node.port), size, dim)
        if key not in self._layouts:
            if node.kind is NodeKind.PARAMETER:
                self._layouts[key] = self._parameter(node, size)
            else:
                self._layouts[key] = self._shared(node, size, dim)
        return self._layouts[key]

    def _shared(self, node: Node, size: int, dim: int | None) -> IndexArray:
        states = _states(node, size)
        if len(states) == 1:
            return np.arange(1)
        fine = [i for i, s in enumerate(states) if self._batch_is_split(s, dim)]
        return np.array(fine, dtype=np.intp)

    def _batch_is_split(self, state: PortState, dim: int | None) -> bool:
        batch, dims = self.scheme.batch_axes, state.forward.dims
        if dim is None:
            return not set(batch) & set(state.forward.split_axes)
        return dims[dim] == batch and (bool(self.scheme.model_axes) or not any(dims[dim + 1 :]))

    def _parameter(self, node: Node, size: int) -> IndexArray:
        states = _states(node, size)
        if self.scheme.shard_weights:
            pieces = [math.prod(s.forward.shards(self.lowered.setting.mesh.sizes)) for s in states]
            used_whole = [
                not self.lowered.setting.dialect.cut_counts or not s.gradient.split_axes
                for s in states
            ]
            most = max((p for p, whole in zip(pieces, used_whole, strict=True) if whole), default=0)
            fine = [i for i, p in enumerate(pieces) if p == most and used_whole[i]]
        else:
            fine = [
                i
                for i, s in enumerate(states)
                if not set(self.scheme.batch_axes) & set(s.forward.split_axes)
            ]
        return np.array(fine, dtype=np.intp)


def _states(node: Node, size: int) -> Sequence[PortState]:
    if node.port is None:
        raise TypeError(f"{node.kind} {node.name} has no layouts")
    return [node.port.states[node.port.of[i]] for i in range(size)]
