"""A pipeline whose layouts are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ir.dtypes import dtype_bytes
from ir.graph import OpGraph, Tensor
from planner.liveness import Interval
from planner.lowered import Lowered, Node, NodeKind
from planner.ports import PortState, local_elements
from planner.stages.chain import pipeline_time_s
from planner.stages.cuts import Cut
from planner.stages.machine import send_s
from planner.stages.menu import Shape
from planner.stages.pieces import wire_layout
from planner.stages.prices import piece_ranges
from topology.cluster import Cluster
from topology.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Group:
    """Pieces on parts of the machine of one size, side by side, and their layouts."""

    lowered: Lowered
    choice: tuple[int, ...]

    @property
    def mesh(self) -> Mesh:
        return self.lowered.setting.mesh

    @property
    def peak_bytes(self) -> float:
        """Of the device that holds most."""
        return self.lowered.problem.peak_bytes(self.choice)

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

    def parameters(self) -> Iterator[tuple[Node, PortState]]:
        """Parameters of all pieces, and where they rest."""
        for node, chosen in zip(self.lowered.nodes, self.choice, strict=True):
            if node.kind is NodeKind.PARAMETER and node.port is not None:
                yield node, node.port.states[node.port.of[chosen]]


@dataclass(frozen=True, slots=True)
class Solved:
    """A pipeline whose layouts are chosen."""

    shape: Shape
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

    def exchange_s(self, nbytes: float) -> float:
        """Seconds in which two stages add up so many bytes of a gradient on every device."""
        return send_s(self.cluster, nbytes)

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
        """Seconds by which it is compared: of a step, and what is paid for wishes."""
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
    tensors = [graph.tensors[name] for name in (*cut.sent, *cut.beside)]
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
