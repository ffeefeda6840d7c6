"""Ring attention: keys and values go round beside the computation in place of being gathered.

Where p devices share the tokens of the queries, each has a block of the keys and values too. In p
steps it attends to one block while the next one is on its way; backward the gradients of keys and
values go round with them and are home after one send more. What computation does not hide is

    (p - 1) max(0, k + v - f / p)  forward,  (p - 1) max(0, 2 (k + v) - b / p) + k + v  backward

with k and v the times to send a block to the neighbour, f and b those of the two passes of the
attention of one device. Every step starts a kernel of its own. Keys and values hide behind half
of the computation each, which is the same where their blocks are equal. Memory is counted as if
they were gathered.

Source: Liu, Zaharia, Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite
Context", arXiv 2310.01889, sections 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.collectives import Collective, CollectiveModel
from costmodel.redistribution import UNREACHABLE_S
from ir.dtypes import dtype_bytes
from ir.graph import Op
from planner.edges import EdgeKind, RetoldEdges, Transfer
from planner.likeness import KEYS, VALUES, query_rows
from planner.lowered import Edge, Lowered, Node
from planner.ports import Port, PortState, local_elements
from planner.problem import EdgeTable
from planner.stages.states import FloatArray


@dataclass(frozen=True, slots=True)
class RingState(PortState):
    """Keys or values as attention reads them whole, though they may go round."""

    axes: tuple[int, ...]
    """Over which the tokens of the queries are split."""
    dim: int
    """Of the rows that go round."""
    forward_s: float
    """Of the attention of one device."""
    backward_s: float


@dataclass(frozen=True, slots=True)
class _Ring:
    """How long keys or values go round on one mesh."""

    lowered: Lowered
    model: CollectiveModel

    def time_s(self, kind: EdgeKind, source: PortState, target: RingState) -> float:
        """Seconds that computation does not hide; infinite where they cannot go round."""
        if not _goes_round(source, target):
            return math.inf
        mesh, chip = self.lowered.setting.mesh, self.lowered.setting.cluster.chip
        pieces = math.prod(mesh.sizes[axis] for axis in target.axes)
        dims, dtype = kind.tensor.dims, kind.tensor.dtype
        nbytes = local_elements(dims, source.forward, mesh) * dtype_bytes(dtype)
        send_s = float(self.model.time_s(Collective.POINT_TO_POINT, nbytes, target.axes))
        return seen_s(
            pieces,
            send_s,
            chip.launch_latency_s,
            (target.forward_s, target.backward_s),
            again=kind.regathered,
            gradient=kind.gradient,
        )


def seen_s(
    pieces: int,
    send_s: float,
    start_s: float,
    passes_s: tuple[float, float],
    *,
    again: bool,
    gradient: bool,
) -> float:
    """Seconds of a micro-batch that computation does not hide of keys, or of values.

    Args:
        pieces: of the context.
        send_s: to send a block of them to the neighbour.
        start_s: to start a kernel.
        passes_s: of the attention of one device, forward and backward.
        again: the forward pass is repeated for the backward pass.
        gradient: there is one.
    """
    steps = pieces - 1
    forward_s, backward_s = (own / pieces / 2 for own in passes_s)
    out = steps * (max(0.0, send_s - forward_s) + start_s / 2) * (2 if again else 1)
    if gradient:
        out += steps * (max(0.0, 2 * send_s - backward_s) + start_s / 2) + send_s
    return out


def _goes_round(source: PortState, target: RingState) -> bool:
    """Whether a tensor lies in the blocks of the queries, and otherwise as attention reads it."""
    own, read = source.forward, target.forward
    if own.partial or read.partial or not target.axes:
        return False
    pairs = enumerate(zip(own.dims, read.dims, strict=True))
    return all(
        sorted(a) == sorted((*b, *target.axes)) if dim == target.dim else a == b
        for dim, (a, b) in pairs
    )


def with_ring(lowered: Lowered, ring: str) -> Lowered:
    """The problem in which keys and values go round where that is faster.

    Args:
        lowered: as it comes; keys and values are gathered.
        ring: `off`, or `auto`.
    """
    if ring == "off" or lowered.setting.mesh.size == 1:
        return lowered
    return _Extension(lowered).made()


@dataclass(slots=True)
class _Extension:
    lowered: Lowered
    ring: _Ring = field(init=False)
    ops: dict[str, Op] = field(init=False)
    tables: list[EdgeTable] = field(init=False)
    _ports: dict[Hashable, tuple[Port, Sequence[object]]] = field(default_factory=dict)
    _numbers: dict[Hashable, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        setting = self.lowered.setting
        self.ring = _Ring(self.lowered, CollectiveModel(setting.cluster, setting.mesh))
        self.ops = {op.name: op for op in self.lowered.liveness.graph.ops}
        self.tables = list(self.lowered.problem.edge_tables)

    def made(self) -> Lowered:
        """The whole, extended."""
        lowered, problem = self.lowered, self.lowered.problem
        edges, table_of = [], []
        for edge, table in zip(lowered.edges, problem.edge_table_of, strict=True):
            port = self._port(edge)
            edges.append(edge if port is None else edge._replace(target_port=port))
            table_of.append(table if port is None else self._table(edge, port, table))
        made = replace(problem, edge_tables=tuple(self.tables), edge_table_of=tuple(table_of))
        pricer = _RingPricer(lowered.pricer, self.ring)
        return replace(lowered, problem=made, edges=tuple(edges), pricer=pricer)

    def _port(self, edge: Edge) -> Port | None:
        """The port of keys or values with what each candidate of attention computes."""
        node = self.lowered.nodes[edge.target]
        op = self.ops.get(node.name)
        if op is None or node.candidates is None or edge.operand not in {KEYS, VALUES}:
            return None
        found = query_rows(op, self.lowered.liveness.graph)
        if found is None:
            return None
        liveness = self.lowered.liveness
        in_block = liveness.block_of(liveness.position[node.name]) is not None
        key = (id(node.candidates), id(edge.target_port), in_block)
        if key not in self._ports:
            made = self._states(node, edge.target_port, *found)
            port = Port(made, np.arange(len(made)))
            self._ports[key] = port, (node.candidates, edge.target_port)
        return self._ports[key][0]

    def _states(
        self, node: Node, port: Port, rows: frozenset[int], dim: int
    ) -> tuple[RingState, ...]:
        found = node.candidates
        if found is None:
            raise TypeError(f"{node.name} has no candidates")
        axes = [
            tuple(axis for axis, factor in enumerate(own) if factor in rows)
            for own in found.assignments
        ]
        liveness = self.lowered.liveness
        in_block = liveness.block_of(liveness.position[node.name]) is not None
        again_s = found.forward_s if in_block else np.zeros_like(found.forward_s)
        out = []
        for candidate, of in enumerate(port.of):
            state, at = port.states[of], node.assignment_index(candidate)
            times = float(found.forward_s[at]), float(found.backward_s[at] - again_s[at])
            out.append(RingState(state.forward, state.gradient, axes[at], dim, *times))
        return tuple(out)

    def _table(self, edge: Edge, port: Port, table: int) -> int:
        key = (table, id(port), id(edge.source_port))
        if key not in self._numbers:
            own = self.lowered.problem.edge_tables[table]
            faster = np.minimum(own.time_s, self._times(edge, port))
            time_s = np.where(own.time_s >= UNREACHABLE_S, own.time_s, faster)
            self._numbers[key] = len(self.tables)
            self.tables.append(EdgeTable(time_s, own.memory_bytes))
        return self._numbers[key]

    def _times(self, edge: Edge, port: Port) -> FloatArray:
        known: dict[tuple[int, PortState], float] = {}
        out = np.full((len(edge.source_port.of), len(port.of)), np.inf)
        for column, target in enumerate(port.states):
            if not isinstance(target, RingState) or not target.axes:
                continue
            for number, source in enumerate(edge.source_port.states):
                if (number, target) not in known:
                    known[number, target] = self.ring.time_s(edge.kind, source, target)
                out[edge.source_port.of == number, column] = known[number, target]
        return out


@dataclass(frozen=True, slots=True)
class _RingPricer(RetoldEdges):
    """Tells the same communication with what is seen of it."""

    ring: _Ring

    def transfers(
        self, kind: EdgeKind, source: PortState, target: PortState
    ) -> tuple[Transfer, ...]:
        moves = self.own.transfers(kind, source, target)
        if not isinstance(target, RingState):
            return moves
        gathered_s = sum(move.step.time_s for move in moves)
        seen_s = self.ring.time_s(kind, source, target)
        if seen_s >= gathered_s:
            return moves
        share = seen_s / gathered_s
        return tuple(
            replace(move, step=replace(move.step, time_s=move.step.time_s * share))
            for move in moves
        )
