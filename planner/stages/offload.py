"""Optimizer state that rests in the memory of the host.

Once in a step the master copy and the moments of such a parameter come to the device, are updated
there, and go back. The link carries both directions at once, and while the state of one parameter
goes back that of the next one comes: a parameter takes its bytes over the bandwidth of one
direction. On the device the state needs no room while activations stand; what is updated passes
through the room that they have left by then.

Source of the decision: Ren et al., "ZeRO-Offload: Democratizing Billion-Scale Model Training",
USENIX ATC 2021, sections 3 and 4. There the host updates, and gradients go down and parameters up;
how fast a host updates is known for few machines, so here the device does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.memory import parameter_bytes
from costmodel.redistribution import UNREACHABLE_S
from planner.edges import EdgeKind, RetoldEdges, Transfer
from planner.lowered import Edge, Lowered, Node, NodeKind
from planner.ports import Port, PortState, local_elements
from planner.problem import EdgeTable, Interval, NodeTable
from planner.request import InfeasibleError, RequestError
from planner.stages.states import FloatArray, StateInParts
from topology.cluster import Chip, Cluster
from topology.units import format_bytes

ROUNDING = 1 + 1e-9
STATES = slice(2, 4)
"""The master copy and the moments among what a parameter holds."""


@dataclass(frozen=True, slots=True)
class OnHost(PortState):
    """A parameter whose optimizer state rests in the memory of the host."""

    own: PortState
    """The same parameter with its state on the device."""


def on_device(state: PortState) -> PortState:
    """How a parameter lies on the device, wherever its optimizer state is."""
    return state.own if isinstance(state, OnHost) else state


def host_bytes(lowered: Lowered, node: Node, state: PortState) -> float:
    """Optimizer state of a parameter that each device has in the memory of its host."""
    if not isinstance(state, OnHost):
        return 0.0
    tensor, setting = lowered.liveness.graph.tensors[node.name], lowered.setting
    each = parameter_bytes(tensor.dtype, setting.optimizer, training=setting.training)
    where = state.own.parts if isinstance(state.own, StateInParts) else state.own
    elements = local_elements(tensor.dims, where.forward, setting.mesh)
    return elements * (each.master + each.moments)


def host_s(lowered: Lowered, nbytes: float) -> float:
    """Seconds of a step in which so much state comes from the host and goes back."""
    rate = lowered.setting.cluster.chip.host_bandwidth_bytes_per_s
    return nbytes / rate if rate else 0.0


def check_offload(chip: Chip, offload: str) -> tuple[str, ...]:
    """What is to be said of states on the host of a chip, for the reader of the plan.

    Raises:
        RequestError: they are to rest there, and no link to it is known.
    """
    if offload == "off" or chip.host_bandwidth_bytes_per_s:
        return ()
    what = f"no link to the memory of its host is known of {chip.name}"
    if offload == "on":
        raise RequestError(
            f"{what}\n  at:  --offload on\n"
            "  fix: leave it out, or give the chip a link PCIE with its bandwidth"
        )
    return (f"{what}: optimizer state stays on the devices",)


def no_room_on_host(error: InfeasibleError, cluster: Cluster, offload: str) -> InfeasibleError:
    """The error, which names the memory of the host where that of the devices is enough."""
    room = cluster.host_memory_bytes
    if offload != "on" or room is None or error.needed_bytes > error.available_bytes:
        return error
    return InfeasibleError(
        f"no plan was found whose optimizer state fits into the {format_bytes(room)} of the memory "
        "of the host that fall to a device",
        needed_bytes=error.needed_bytes,
        available_bytes=error.available_bytes,
        contributors=error.contributors,
        remedies=("--offload auto",),
    )


def with_offload(lowered: Lowered, offload: str, shared: Collection[str] = ()) -> Lowered:
    """The problem with optimizer state on the host, where a parameter has any.

    A chip without a known link to its host leaves the problem as it is.

    Args:
        lowered: with all levels of ZeRO that are asked for.
        offload: `off`, `auto` for either of each parameter, or `on` for all of them.
        shared: parameters that other stages hold too; their state stays on the device.
    """
    cluster = lowered.setting.cluster
    known = cluster.chip.host_bandwidth_bytes_per_s
    if offload == "off" or not known:
        return lowered
    room = cluster.host_memory_bytes
    limit = math.inf if room is None else float(room)
    return _Extension(lowered, offload == "on", frozenset(shared), known, limit).made()


def brought_back(
    lowered: Lowered, choice: Sequence[int], nodes: Sequence[int], spare_bytes: float
) -> dict[int, int]:
    """Candidates of parameters whose state the device has room for after all, the largest first.

    State costs the same time for each byte on its way from the host, so a price on memory moves all
    of it or none.

    Args:
        lowered: a problem with state on either side.
        choice: a candidate for every node.
        nodes: those that share a device.
        spare_bytes: room that is left there.
    """
    found: dict[int, tuple[float, int]] = {}
    for number in nodes:
        node, chosen = lowered.nodes[number], choice[number]
        if node.kind is not NodeKind.PARAMETER or node.port is None:
            continue
        here = chosen - len(node.port.of) // 2
        state, there = (node.port.states[node.port.of[at]] for at in (here, chosen))
        if isinstance(there, OnHost) and state is there.own:
            table = lowered.problem.node_tables[lowered.problem.node_table_of[number]]
            held = float(sum(vector[here] for vector in table.memory_bytes[STATES]))
            found[number] = held, here
    back = {}
    for number, (held, here) in sorted(found.items(), key=lambda item: (-item[1][0], item[0])):
        if held <= spare_bytes:
            back[number] = here
            spare_bytes -= held
    return back


@dataclass(slots=True)
class _Extension:
    lowered: Lowered
    always: bool
    shared: frozenset[str]
    bandwidth: float
    limit_bytes: float
    """Memory of the host for each device."""
    totals: dict[Interval, float] = field(default_factory=dict)
    """Optimizer state of each part of the machine, by the time points in which it stands."""
    node_tables: list[NodeTable] = field(default_factory=list)
    edge_tables: list[EdgeTable] = field(default_factory=list)
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _ports: dict[int, tuple[Port, Port]] = field(default_factory=dict)

    def made(self) -> Lowered:
        """The whole, extended."""
        lowered, problem = self.lowered, self.lowered.problem
        for number, node in enumerate(lowered.nodes):
            if node.kind is NodeKind.PARAMETER:
                part = problem.node_intervals[number][STATES.start]
                self.totals[part] = self.totals.get(part, 0.0) + self._state_bytes(node)
        moved = [
            self._may_move(node, problem.node_tables[table])
            for node, table in zip(lowered.nodes, problem.node_table_of, strict=True)
        ]
        node_table_of = tuple(
            self._node_table(number, table, may)
            for number, (table, may) in enumerate(zip(problem.node_table_of, moved, strict=True))
        )
        edge_table_of = tuple(
            self._edge_table(table, moved[edge.source])
            for edge, table in zip(lowered.edges, problem.edge_table_of, strict=True)
        )
        return replace(
            lowered,
            problem=replace(
                problem,
                node_tables=tuple(self.node_tables),
                edge_tables=tuple(self.edge_tables),
                node_table_of=node_table_of,
                edge_table_of=edge_table_of,
            ),
            nodes=tuple(map(self._node, lowered.nodes, moved)),
            edges=tuple(self._edge(edge, may=moved[edge.source]) for edge in lowered.edges),
            pricer=_HostPricer(lowered.pricer),
        )

    def _may_move(self, node: Node, table: NodeTable) -> bool:
        if node.kind is not NodeKind.PARAMETER or node.name in self.shared:
            return False
        return any(held.any() for held in table.memory_bytes[STATES])

    def _node(self, node: Node, may: bool) -> Node:
        return node._replace(port=self._port(node.port)) if may and node.port else node

    def _edge(self, edge: Edge, *, may: bool) -> Edge:
        return edge._replace(source_port=self._port(edge.source_port)) if may else edge

    def _port(self, port: Port) -> Port:
        if id(port) not in self._ports:
            moved = (OnHost(s.forward, s.gradient, s) for s in port.states)
            states: tuple[PortState, ...] = tuple(moved)
            of = port.of
            if not self.always:
                states = (*port.states, *states)
                of = np.concatenate([of, of + len(port.states)])
            self._ports[id(port)] = port, Port(states, of)
        return self._ports[id(port)][1]

    def _state_bytes(self, node: Node) -> float:
        """All of the optimizer state of a parameter."""
        tensor, setting = self.lowered.liveness.graph.tensors[node.name], self.lowered.setting
        each = parameter_bytes(tensor.dtype, setting.optimizer, training=setting.training)
        return tensor.elements * (each.master + each.moments)

    def _node_table(self, node: int, table: int, may: bool) -> int:
        most = self._most_bytes(node) if may else math.inf
        number = self._numbers.setdefault(("node", table, may, most), len(self.node_tables))
        if number == len(self.node_tables):
            own = self.lowered.problem.node_tables[table]
            self.node_tables.append(self._moved_table(own, most) if may else own)
        return number

    def _most_bytes(self, node: int) -> float:
        """What a parameter may keep on the host of each device: its share. Then all of them fit."""
        total = self.totals[self.lowered.problem.node_intervals[node][STATES.start]]
        return self.limit_bytes * self._state_bytes(self.lowered.nodes[node]) / total

    def _moved_table(self, own: NodeTable, most_bytes: float) -> NodeTable:
        moved = np.sum(own.memory_bytes[STATES], axis=0)
        spent_s = moved / self.bandwidth / self.lowered.setting.once_per
        spent_s = np.where(moved <= most_bytes * ROUNDING, spent_s, UNREACHABLE_S)
        left = [
            np.zeros_like(held) if STATES.start <= number < STATES.stop else held
            for number, held in enumerate(own.memory_bytes)
        ]
        memory = [self._both(a, b) for a, b in zip(own.memory_bytes, left, strict=True)]
        axes = own.axes
        if axes is not None and not self.always:
            axes = np.concatenate([axes, axes])
        return NodeTable(self._both(own.time_s, own.time_s + spent_s), tuple(memory), axes)

    def _edge_table(self, table: int, may: bool) -> int:
        may = may and not self.always
        number = self._numbers.setdefault(("edge", table, may), len(self.edge_tables))
        if number == len(self.edge_tables):
            own = self.lowered.problem.edge_tables[table]
            if may:
                copies = tuple(self._both(m, m) for m in own.memory_bytes)
                own = EdgeTable(self._both(own.time_s, own.time_s), copies)
            self.edge_tables.append(own)
        return number

    def _both(self, device: FloatArray, host: FloatArray) -> FloatArray:
        """Rows of candidates on the device, then on the host; the latter alone where all move."""
        return host if self.always else np.concatenate([device, host])


@dataclass(frozen=True, slots=True)
class _HostPricer(RetoldEdges):
    """Collectives are those of a parameter whose state is on the device."""

    def transfers(
        self, kind: EdgeKind, source: PortState, target: PortState
    ) -> tuple[Transfer, ...]:
        return self.own.transfers(kind, on_device(source), target)
