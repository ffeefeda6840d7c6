"""A lowered graph: the problem, and what its nodes and edges mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, Self

import numpy as np

from costmodel.memory import Optimizer
from costmodel.overlap import StepForm
from costmodel.software import GENERIC, SoftwareProfile
from ir.dialects import Dialect
from ir.layout import Layout
from planner.candidates.assignments import Assignment
from planner.candidates.columns import Columns
from planner.candidates.layout_tables import LayoutPair, LayoutTable
from planner.candidates.operators import OpCandidates
from planner.lowering.edges import EdgeKind, EdgePricer, Transfer
from planner.lowering.liveness import Liveness, Origin
from planner.lowering.optimizer_states import StateOptions, transfers_in_parts
from planner.lowering.pricing import LoweringCache
from planner.lowering.ring_attention import RingReads
from planner.problem import Inherited, IntArray, Problem
from planner.reduction.restriction import IndexArray, offered, restricted
from topology.cluster import Cluster
from topology.mesh import Mesh


class NodeKind(StrEnum):
    """What a node of the problem stands for."""

    OPERATOR = "operator"
    PARAMETER = "parameter"
    INPUT = "input"
    SENT = "sent"
    """A tensor that leaves for other devices, in the layout in which it is sent."""
    TENSOR = "tensor"
    """A tensor with several readers: gathered once, its gradients summed while partial."""


class Node(NamedTuple):
    """One node of the problem and what its candidates mean."""

    kind: NodeKind
    name: str
    """Operator or tensor, as the lowered graph calls it."""
    origin: Origin
    """The stage that it is in, and what the network calls it."""
    candidates: OpCandidates | None
    """For an operator."""
    layouts: LayoutTable | None
    """For a tensor: those that it may have."""
    columns: Columns
    """What each candidate decides."""
    memory_causes: tuple[str, ...]
    """Cause of each memory vector."""
    recomputes: tuple[str, ...] = ()
    """Tensors of the network that a candidate with `recompute` computes again in the backward
    pass."""

    @classmethod
    def of(
        cls,
        liveness: Liveness,
        kind: NodeKind,
        name: str,
        offers: OpCandidates | LayoutTable,
        columns: Columns,
        causes: tuple[str, ...] = (),
        again: tuple[str, ...] = (),
    ) -> Self:
        """A node of a graph as it is in the network; arguments are those of the fields."""
        origin, recomputes = liveness.origin(name), tuple(liveness.origin(n).name for n in again)
        if isinstance(offers, OpCandidates):
            return cls(kind, name, origin, offers, None, columns, causes, recomputes)
        return cls(kind, name, origin, None, offers, columns, causes, recomputes)

    @property
    def stage(self) -> int:
        """Number of the stage that it is in."""
        return self.origin.stage

    def row(self, candidate: int) -> int:
        """Row of the assignments or layouts, whatever else a candidate decides."""
        return int(self.columns.assignment[candidate])

    def assignment(self, candidate: int) -> Assignment:
        """What a candidate of an operator does with the mesh axes."""
        if self.candidates is None:
            raise TypeError(f"{self.kind} {self.name} has no assignments")
        return self.candidates.assignments[self.row(candidate)]

    def layout(self, candidate: int) -> LayoutPair:
        """How a tensor lies with a candidate."""
        return self._layout(self.row(candidate))

    def states(self, candidate: int) -> LayoutPair:
        """How the optimizer state of a parameter lies with a candidate."""
        return self._layout(int(self.columns.states[candidate]))

    def axis_choices(self, axes: int) -> IntArray:
        """What each candidate does with every mesh axis, as numbers: the factor that it splits, or
        the dimension of the tensor; 0 if nothing. The hint of `NodeTable.axes`, shape (C, A).
        """
        if self.candidates is not None:
            rows = self.candidates.splits.labels
        elif self.layouts is not None:
            rows = self.layouts.axis_choices(axes)
        else:
            raise TypeError(f"{self.kind} {self.name} has no candidates")
        return rows[self.columns.assignment] if self.recomputes else rows

    def inherited(self) -> IntArray | None:
        """Which candidates of an operator MindSpore's propagation alone has, as layouts of
        neighbours: the hint of `NodeTable.inherited`.

        What moves dimensions takes over that of its operand alone.
        """
        found = self.candidates
        if found is None:
            return None
        tables = [table for table in (*found.operands, *found.results) if table is not None]
        moves = any(table.key != tables[0].key for table in tables)
        kind = Inherited.FROM_MAKERS if moves else Inherited.FROM_ALL
        return np.where(found.splits.in_order[self.columns.assignment], 0, kind)

    def _layout(self, row: int) -> LayoutPair:
        if self.layouts is None:
            raise TypeError(f"{self.kind} {self.name} has no layouts")
        return self.layouts.states[int(self.layouts.of[row])]


class Edge(NamedTuple):
    """One edge of the problem and what flows along it."""

    tensor: str
    source: int
    target: int
    kind: EdgeKind
    source_layouts: LayoutTable
    """By row of the source."""
    target_layouts: LayoutTable
    operand: int
    """Operand of the target operator; -1 for a node of a tensor."""
    ring: RingReads | None = None
    """For keys and values that may go round."""


class Flow(NamedTuple):
    """What flows along an edge between a candidate of either end."""

    kind: EdgeKind
    source: LayoutPair
    target: LayoutPair
    zero: int = 0
    """Level of ZeRO of the parameter that flows."""
    states: LayoutPair | None = None
    """Where its optimizer state rests, at level 1 or 2."""
    ring: RingReads | None = None
    row: int = 0
    """Of the assignments of the operator that reads."""

    @property
    def key(self) -> tuple[int, ...]:
        """The same for what flows alike, in one problem."""
        row = -1 if self.ring is None else self.row
        shared = (self.kind, self.source, self.target, self.states, self.ring)
        return (*map(id, shared), self.zero, row)


@dataclass(frozen=True, slots=True)
class Setting:
    """What lowering needs beside the graph."""

    cluster: Cluster
    mesh: Mesh
    dialect: Dialect
    training: bool
    optimizer: Optimizer
    input_layouts: Mapping[str, Layout]
    memory_limit_bytes: float
    recompute: bool = False
    """Offer saved tensors to be computed again; only worth its candidates when memory binds."""
    cost: str = "time"
    """In what the problem is priced (`planner.lowering.pricing`)."""
    micro_batches: int = 1
    """Of one step. The graph is of one of them, and so is the cost: what happens once in a step
    counts by its share."""
    steady: bool = False
    """Leave out what happens once in a step."""
    in_flight: tuple[int, ...] = ()
    """Micro-batches whose saved tensors each piece of the graph keeps; 1 if it is not said."""
    sent: Mapping[str, Layout] = field(default_factory=dict)
    """Tensors that leave for other devices, and the layouts in which they do."""
    held: frozenset[str] = frozenset()
    """Operators whose layouts the user gives."""

    states: StateOptions | None = None
    """Where gradients and optimizer state may rest; as the parameter does if it is not said."""
    ring_attention: bool = False
    """Keys and values go round where that is faster."""
    overlap: bool = False
    """Messages of parameters travel beside computation."""
    software: SoftwareProfile = GENERIC
    """What a step adds to kernels and messages measured alone."""

    @property
    def form(self) -> StepForm | None:
        """How time follows from loads; None where it is a sum."""
        tiers = len(self.mesh.used_tiers)
        alone = not tiers and not self.software.host_s
        if not self.overlap or alone or self.cost != "time":
            return None
        return StepForm(tiers, self.micro_batches, self.steady, self.software)

    @property
    def once_per(self) -> float:
        """Micro-batches that share what happens once in a step."""
        return math.inf if self.steady else self.micro_batches


@dataclass(frozen=True, eq=False)
class Lowered:
    """A problem with the meaning of its nodes and edges."""

    problem: Problem
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    liveness: Liveness
    setting: Setting
    pricer: EdgePricer
    left_out: int
    """Assignments beyond the limit of candidates, over all operators."""
    basis: LoweringCache | None = None
    """For another lowering of the same graph on the same mesh."""

    def flow(self, edge: Edge, source: int, target: int) -> Flow:
        """What flows along an edge between a candidate of either end."""
        before, after = self.nodes[edge.source], self.nodes[edge.target]
        columns, at = before.columns, before.columns.assignment[source]
        row = after.columns.assignment[target]
        level = int(columns.zero[source])
        return Flow(
            edge.kind,
            edge.source_layouts.states[edge.source_layouts.of[at]],
            edge.target_layouts.states[edge.target_layouts.of[row]],
            level,
            before.states(source) if level else None,
            edge.ring,
            int(row),
        )

    def transfers(self, flow: Flow) -> tuple[Transfer, ...]:
        """The collectives of what flows along an edge, in order."""
        kind, ends = flow.kind, (flow.source, flow.target)
        if flow.states is None:
            moves = self.pricer.transfers(kind, *ends)
        else:
            moves = transfers_in_parts(self.pricer, kind, (flow.states, flow.target), flow.zero)
        return moves if flow.ring is None else flow.ring.seen(moves, kind, ends, flow.row)


def narrowed(lowered: Lowered, allowed: Mapping[int, IndexArray]) -> Lowered:
    """The problem in which some nodes have only some of their candidates.

    Args:
        lowered: the problem.
        allowed: candidates of those nodes, ascending; of an operator that may compute something
            again, the same ones with and without that.
    """
    if not allowed:
        return lowered
    keep = offered(lowered.problem, allowed)
    nodes = tuple(
        node._replace(columns=node.columns.take(keep[number])) if number in allowed else node
        for number, node in enumerate(lowered.nodes)
    )
    return replace(lowered, problem=restricted(lowered.problem, keep), nodes=nodes)
