"""What the planner says that an operator sends: inside, to its neighbours, and for gradients.

Run by the planner's Python. It is what plans are priced with: the candidates of the operator, and
the edge from a parameter that rests as the operator reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.collectives import Collective, CollectiveModel
from costmodel.operators import OperatorModel
from costmodel.redistribution import Shardable
from ir.dialects import Dialect
from ir.ops import OpView, lookup
from ir.rule import ShardingRule, edge_elements
from planner.candidates.operators import OpCandidates, OpPricer
from planner.lowering.edges import EdgeKind, EdgePricer
from planner.lowering.operator_prices import edge_pricer
from topology.cluster import Cluster
from topology.mesh import Mesh, rank_groups

Message = tuple[str, tuple[int, ...], int]
"""Kind of the collective, ranks of the group with rank 0, bytes."""
Edge = tuple[int, int]
"""The next neighbour of rank 0, and bytes that both send each other, corners left out."""


def can_be_trained(view: OpView) -> tuple[bool, ...]:
    """For every operand whether it can have a gradient from the first result."""
    able = lookup(view.op.kind).differentiable
    real = bool(view.outputs[0].dims) and view.outputs[0].is_float
    return tuple(
        real and tensor is not None and tensor.is_float and (able is None or i in able)
        for i, tensor in enumerate(view.inputs)
    )


@dataclass(frozen=True, slots=True)
class OperatorMessages:
    """Messages of one operator on one mesh, for everything that it may do with the mesh axes."""

    view: OpView
    rule: ShardingRule
    mesh: Mesh
    gradient: tuple[bool, ...]
    """For every operand whether it is a parameter with a gradient."""
    candidates: OpCandidates
    edges: EdgePricer
    place: dict[tuple[int, ...], int]
    """The candidate that splits the mesh axes so."""

    @classmethod
    def of(
        cls,
        view: OpView,
        cluster: Cluster,
        mesh: Mesh,
        dialect: Dialect,
        gradient: Sequence[bool],
    ) -> OperatorMessages:
        model = CollectiveModel(cluster, mesh)
        pricer = OpPricer(mesh, dialect, OperatorModel(cluster.chip, smooth=True), model)
        found = pricer.candidates(view, gradient)
        place = {own: i for i, own in enumerate(found.assignments)}
        edges = edge_pricer(dialect, mesh, model)
        rule = lookup(view.op.kind).rule(view)
        return cls(view, rule, mesh, tuple(gradient), found, edges, place)

    def sent(self, split: Sequence[int]) -> dict[str, Any]:
        """What one candidate sends, in plain values."""
        index = self.place[tuple(split)]
        inside = [*self._inside(index)]
        edges = [*self._edges(index, split)]
        return {
            "forward": sorted(message for message, times, _ in inside for _ in range(times)),
            "backward": sorted(message for message, _, times in inside for _ in range(times)),
            "gradients": sorted(self._gradients(index)),
            "edges": [edge for edge, _ in edges],
            "edges_back": [edge for edge, times in edges for _ in range(times)],
        }

    def _inside(self, index: int) -> Iterator[tuple[Message, int, int]]:
        """Each message inside, and how often it is sent forward and backward."""
        for item in self.candidates.inner[index]:
            if item.kind is not Collective.POINT_TO_POINT:
                message = self._message(item.kind, item.axes, item.nbytes)
                yield message, item.forward, item.backward

    def _gradients(self, index: int) -> Iterator[Message]:
        """Sums of the gradients of parameters."""
        for number, (tensor, table) in enumerate(
            zip(self.view.inputs, self.candidates.operands, strict=True)
        ):
            if tensor is None or table is None or not self.gradient[number]:
                continue
            state = table.states[table.of[index]]
            kind = EdgeKind(Shardable(tensor.dims, tensor.dtype), gradient=True, parameter=True)
            for each in self.edges.transfers(kind, state, state):
                if each.step.kind is not None:
                    yield self._message(each.step.kind, each.step.axes, each.step.nbytes)

    def _message(self, kind: Collective, axes: Sequence[int], nbytes: float) -> Message:
        return kind.value, rank_groups(self.mesh.sizes, tuple(axes))[0], round(nbytes)

    def _edges(self, index: int, split: Sequence[int]) -> Iterator[tuple[Edge, int]]:
        """Each edge, and how often it is sent backward. Later ones are priced with the corners."""
        cut = {f: self._axes(f, split) for f in range(len(self.rule.sizes))}
        pieces = {f: math.prod(self.mesh.sizes[a] for a in axes) for f, axes in cut.items()}
        inside = self.candidates.inner[index]
        priced = [item for item in inside if item.kind is Collective.POINT_TO_POINT]
        for number, item in enumerate(priced):
            (window,) = (w for w in self.rule.windows if cut[w.factor] == item.axes)
            (elements,) = edge_elements((window,), self.rule.sizes, pieces)
            nbytes = elements * window.bytes_per_element if number else item.nbytes
            yield (self.mesh.stride(item.axes[-1]), round(nbytes)), item.backward

    def _axes(self, factor: int, split: Sequence[int]) -> tuple[int, ...]:
        return tuple(axis for axis, own in enumerate(split) if own == factor)
