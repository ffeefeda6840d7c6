"""A lowered graph: the problem, and what its nodes and edges mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from costmodel.memory import Optimizer
from ir.layout import Layout
from planner.basis import Basis
from planner.candidates import OpCandidates
from planner.dialects import Dialect
from planner.edges import EdgeKind, EdgePricer
from planner.liveness import Liveness
from planner.ports import Port
from planner.problem import Problem
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
    """Operator or tensor."""
    candidates: OpCandidates | None
    """For an operator."""
    port: Port | None
    """For a tensor: its layouts."""
    memory_causes: tuple[str, ...]
    """Cause of each memory vector."""
    recomputes: tuple[str, ...] = ()
    """Tensors that the second half of the candidates computes again in the backward pass."""

    def assignment_index(self, candidate: int) -> int:
        """Index into the assignments, whatever is computed again."""
        if self.candidates is None:
            raise TypeError(f"{self.kind} {self.name} has no assignments")
        return candidate % len(self.candidates.assignments)


class Edge(NamedTuple):
    """One edge of the problem and what flows along it."""

    tensor: str
    source: int
    target: int
    kind: EdgeKind
    source_port: Port
    target_port: Port
    operand: int
    """Operand of the target operator; -1 for a node of a tensor."""


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
    """In what the problem is priced (`planner.pricing`)."""
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
    basis: Basis | None = None
    """For another lowering of the same graph on the same mesh."""
