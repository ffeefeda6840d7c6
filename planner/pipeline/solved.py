"""A pipeline whose layouts are chosen, and what is sent between its stages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costmodel.collectives import Collective, CollectiveModel
from costmodel.schedules.closed_form import pipeline_time_s
from ir.dtypes import dtype_bytes
from ir.graph import OpGraph, Tensor
from planner.candidates.layout_tables import local_elements
from planner.lowering.liveness import Interval
from planner.lowering.lowered import Lowered, Node, NodeKind
from planner.lowering.pieces import Cut, wire_layout
from planner.pipeline.prices import piece_ranges
from planner.pipeline.space import Configuration
from topology.cluster import Cluster
from topology.mesh import Mesh, tier_mesh

BUFFER_ROUNDS = 2
"""Times that an answer is sought again because its communication groups need more buffers."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pieces on parts of the machine of one size, side by side, and their layouts."""

    lowered: Lowered
    choice: Sequence[int]

    @property
    def mesh(self) -> Mesh:
        return self.lowered.setting.mesh

    @property
    def peak_bytes(self) -> float:
        """Of the device that holds most."""
        return self.lowered.problem.peak_bytes(self.choice)

    def buffer_excess_bytes(self) -> int:
        """Buffers of the communication groups beyond the cluster's reserve; equal edges are looked
        at once.
        """
        cluster, sizes = self.lowered.setting.cluster, self.mesh.sizes
        if not cluster.buffer_excess_bytes(2 ** len(sizes) - 1):
            return 0
        groups: set[frozenset[int]] = set()
        known: set[tuple[int, ...]] = set()
        for edge in self.lowered.edges:
            flow = self.lowered.flow(edge, self.choice[edge.source], self.choice[edge.target])
            if flow.key not in known:
                known.add(flow.key)
                steps = (move.step for move in self.lowered.transfers(flow))
                groups.update(frozenset(step.axes) for step in steps if step.kind is not None)
        for node, chosen in zip(self.lowered.nodes, self.choice, strict=True):
            if node.candidates is not None:
                inner = node.candidates.inner[node.row(chosen)]
                groups.update(frozenset(i.axes) for i in inner if i.forward + i.backward)
        count = sum(math.prod(sizes[axis] for axis in axes) > 1 for axes in groups)
        return cluster.buffer_excess_bytes(count)

    @property
    def fits(self) -> bool:
        """Whether it fits into the memory, with the buffers of its communication groups."""
        problem, peak = self.lowered.problem, self.peak_bytes
        return problem.fits(peak) and problem.fits(peak + self.buffer_excess_bytes())

    @property
    def ranges(self) -> dict[int, Interval]:
        """Positions of each piece among all operators side by side."""
        return piece_ranges(self.lowered.liveness)

    @property
    def moments(self) -> dict[int, tuple[Interval, ...]]:
        """Time points of each piece, once for every moment at which it may run."""
        liveness = self.lowered.liveness
        return {
            piece: liveness.moments_of(liveness.piece_of(start))
            for piece, (start, _) in self.ranges.items()
        }

    def parameters(self) -> Iterator[tuple[Node, int]]:
        """Parameters of all pieces, and their candidates."""
        for node, chosen in zip(self.lowered.nodes, self.choice, strict=True):
            if node.kind is NodeKind.PARAMETER:
                yield node, chosen


@dataclass(frozen=True, slots=True)
class Solved:
    """A pipeline whose layouts are chosen."""

    shape: Configuration
    graph: OpGraph
    """Of one micro-batch, whole."""
    spans: tuple[Interval, ...]
    """Operators of each piece, in the order of the network."""
    cuts: tuple[Cut, ...]
    """Between the pieces."""
    cluster: Cluster
    """All of the machine."""
    groups: tuple[Group, ...]
    """All pieces, each on its part of the machine; those of one size of part together."""
    times_s: tuple[float, ...]
    """Of each piece for one micro-batch, with its share of what happens once in a step."""
    fits: bool
    truncated: bool = False
    blocks: tuple[tuple[Interval, ...], ...] = ()
    """Of each piece, what the backward pass computes again as a whole."""
    shared: tuple[str, ...] = ()
    """Parameters that several pieces hold, by their names in the pieces."""
    paid_s: float = 0.0
    """What soft pins that are not kept are charged in a step."""

    @property
    def parts_s(self) -> tuple[float, ...]:
        """Of each part of the machine for one micro-batch."""
        parts = self.shape.stages
        return tuple(sum(self.times_s[part::parts]) for part in range(parts))

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return pipeline_time_s(self.parts_s, self.shape.micro_batches, self.shape.chunks)

    @property
    def worth_s(self) -> float:
        """Seconds by which it is compared: of a step, and what is paid for soft constraints."""
        return self.step_s + self.paid_s

    @property
    def peak_bytes(self) -> float:
        """Of the device that holds most."""
        return max(group.peak_bytes for group in self.groups)

    def group_of(self, piece: int) -> Group:
        """The group that a piece is in."""
        return next(group for group in self.groups if piece in group.ranges)

    def sends_s(self, piece: int) -> tuple[float, float]:
        """Seconds in which a piece receives a micro-batch, and sends its gradient."""
        ends = (self.group_of(piece - 1).mesh, self.group_of(piece).mesh)
        return sends_s(self.cluster, self.graph, self.cuts[piece - 1], ends)

    def sent_bytes(self, piece: int, name: str) -> float:
        """What a device sends or receives at most of a tensor that a piece receives."""
        ends = (self.group_of(piece - 1).mesh, self.group_of(piece).mesh)
        return max(wire_bytes(self.graph.tensors[name], mesh) for mesh in ends)


def send_s(cluster: Cluster, nbytes: float) -> float:
    """Seconds in which every device sends so many bytes to its place in the next stage, over the
    outermost links: some neighbours are that far apart.
    """
    model = CollectiveModel(cluster, tier_mesh(cluster))
    return float(model.time_s(Collective.POINT_TO_POINT, nbytes, (0,)))


def send_tier(cluster: Cluster) -> str:
    """The links that a send crosses."""
    return CollectiveModel(cluster, tier_mesh(cluster)).tier_of((0,))


def sends_s(
    cluster: Cluster, graph: OpGraph, cut: Cut, ends: Sequence[Mesh]
) -> tuple[float, float]:
    """Seconds in which what crosses a cut is sent, and the gradients go back.

    Args:
        cluster: all of the machine.
        graph: of one micro-batch.
        cut: where.
        ends: meshes on its two sides; the smaller one has more to send for each device.
    """
    tensors = [graph.tensors[name] for name in (*cut.sent, *cut.without_gradient)]
    nbytes = [max(wire_bytes(tensor, mesh) for mesh in ends) for tensor in tensors]
    forward = sum(send_s(cluster, n) for n in nbytes)
    return forward, sum(send_s(cluster, n) for n in nbytes[: len(cut.sent)])


def wire_bytes(tensor: Tensor, mesh: Mesh) -> float:
    """What a device of a mesh sends or receives of a tensor."""
    elements = local_elements(tensor.dims, wire_layout(tensor, mesh), mesh)
    return float(elements * dtype_bytes(tensor.dtype))


def slowest(values: Sequence[float]) -> int:
    """Position of the largest."""
    return max(range(len(values)), key=values.__getitem__)
