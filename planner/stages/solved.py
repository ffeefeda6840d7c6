"""A pipeline whose layouts are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ir.dtypes import dtype_bytes
from ir.graph import OpGraph
from planner.liveness import Interval
from planner.lowered import Lowered, Node, NodeKind
from planner.ports import PortState, local_elements
from planner.stages.chain import pipeline_time_s
from planner.stages.cuts import Cut
from planner.stages.machine import send_s
from planner.stages.menu import Shape
from planner.stages.pieces import name_in, wire_layout
from planner.stages.prices import piece_ranges
from topology.cluster import Cluster


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
    lowered: Lowered
    """All pieces side by side, each on its part of the machine."""
    choice: tuple[int, ...]
    times_s: tuple[float, ...]
    """Of each piece for one micro-batch, with its share of what happens once in a step."""
    fits: bool
    truncated: bool = False
    blocks: tuple[tuple[Interval, ...], ...] = ()
    """Of each piece, what the backward pass computes again as a whole."""
    shared: tuple[str, ...] = ()
    """Parameters that several pieces hold, by their names in the pieces."""

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
    def peak_bytes(self) -> float:
        """Of the device that holds most."""
        return self.lowered.problem.peak_bytes(self.choice)

    @property
    def ranges(self) -> dict[int, Interval]:
        """Positions of each piece among all operators side by side."""
        return piece_ranges(self.lowered.liveness)

    def parameters(self) -> Iterator[tuple[Node, PortState]]:
        """Parameters of all pieces, and where they rest."""
        for node, chosen in zip(self.lowered.nodes, self.choice, strict=True):
            if node.kind is NodeKind.PARAMETER and node.port is not None:
                yield node, node.port.states[node.port.of[chosen]]


def sends_s(cluster: Cluster, lowered: Lowered, piece: int, cut: Cut) -> tuple[float, float]:
    """Seconds in which a piece receives what crosses the cut before it, and sends the gradient."""
    nbytes = [wire_bytes(lowered, piece, name) for name in (*cut.sent, *cut.beside)]
    forward = sum(send_s(cluster, n) for n in nbytes)
    return forward, sum(send_s(cluster, n) for n in nbytes[: len(cut.sent)])


def wire_bytes(lowered: Lowered, piece: int, name: str) -> float:
    """What a device of a piece receives of a tensor."""
    tensor = lowered.liveness.graph.tensors[name_in(piece, name)]
    layout = wire_layout(tensor, lowered.setting.mesh)
    elements = local_elements(tensor.dims, layout, lowered.setting.mesh)
    return float(elements * dtype_bytes(tensor.dtype))


def slowest(values: Sequence[float]) -> int:
    """Position of the largest."""
    return max(range(len(values)), key=values.__getitem__)
