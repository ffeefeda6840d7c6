"""Where gradients and optimizer state of a parameter rest: stages 1 and 2 of ZeRO.

A parameter that rests in the layout of its readers has copies on the axes that do not split it.
Level 1 shares its optimizer state out over them: in a step its gradient is scattered once, each
device updates its part, and the parts are gathered once. Level 2 shares the gradient out too,
which leaves no room to add up a whole one: it is scattered in every micro-batch. At level 3 the
parameter itself rests in parts, which are gathered in every micro-batch; those layouts at rest
are among the candidates of every search.

Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
arXiv 1910.02054, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.redistribution import UNREACHABLE_S
from ir.dtypes import dtype_bytes
from ir.plan import CAUSE_UPDATED
from planner.edges import (
    CAUSE_GATHER,
    CAUSE_SYNC,
    EdgeKind,
    EdgePricer,
    FreeEdges,
    MindsporeEdges,
    RetoldEdges,
    Transfer,
    is_same,
)
from planner.lowered import Edge, Lowered, Node, NodeKind
from planner.ports import Port, PortState, port_elements
from planner.problem import EdgeTable, NodeTable, Problem

IndexArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]
Exchange = Callable[[FloatArray], FloatArray]
"""Seconds in a step in which stages that share a parameter add up so many bytes of gradients."""


@dataclass(frozen=True, slots=True)
class StateInParts(PortState):
    """A parameter in the layout of its readers, with optimizer state in smaller parts."""

    parts: PortState
    """The parameter as it would rest if it lay in these parts too."""
    level: int
    """1: the optimizer state, 2: the gradient too."""


@dataclass(frozen=True, slots=True)
class Places:
    """The candidates of a parameter, as positions in its port."""

    at: IndexArray
    """Where the parameter rests, shape (C,)."""
    state_at: IndexArray
    """Where its optimizer state does."""
    levels: IndexArray
    """0 where both are the same."""

    @property
    def gradient_at(self) -> IndexArray:
        """Where its gradient rests."""
        return np.where(self.levels == 2, self.state_at, self.at)


def level_of(state: PortState, *, used: bool) -> int:
    """How far a parameter is sharded over its copies, as stage of ZeRO.

    Args:
        state: of the parameter.
        used: whether it rests in the layout of its readers.
    """
    if isinstance(state, StateInParts):
        return state.level
    return 0 if used else 3


def with_states(
    lowered: Lowered, zero: str, exchanges: Mapping[str, Exchange] | None = None
) -> Lowered:
    """The problem with the levels of ZeRO that are asked for.

    Args:
        lowered: as it comes; levels 0 and 3 are among its candidates.
        zero: `auto` for all levels, or the one that every parameter has that can.
        exchanges: of parameters that other stages hold too.
    """
    return _Extension(lowered, zero, exchanges or {}).made()


@dataclass(slots=True)
class _Extension:
    lowered: Lowered
    zero: str
    exchanges: Mapping[str, Exchange]
    places: dict[Hashable, tuple[Places, Port, Sequence[Port]]] = field(default_factory=dict)
    node_tables: list[NodeTable] = field(default_factory=list)
    edge_tables: list[EdgeTable] = field(default_factory=list)
    _node_numbers: dict[Hashable, int] = field(default_factory=dict)
    _edge_numbers: dict[Hashable, int] = field(default_factory=dict)
    once: EdgePricer = field(init=False)
    free: bool = field(init=False)

    def __post_init__(self) -> None:
        pricer = self.lowered.pricer
        if not isinstance(pricer, FreeEdges | MindsporeEdges):
            raise TypeError(f"{type(pricer).__name__} knows no parameters at rest")
        self.once = replace(pricer, micro_batches=1, once_per=1.0)
        self.free = isinstance(pricer, FreeEdges)
        if isinstance(self.once, FreeEdges):
            self.once = replace(self.once, flat=True)

    def made(self) -> Lowered:
        """The whole, extended."""
        lowered, problem = self.lowered, self.lowered.problem
        node_table_of = tuple(
            self._node_table(node, table)
            for node, table in zip(lowered.nodes, problem.node_table_of, strict=True)
        )
        edge_table_of = tuple(
            self._edge_table(edge, table)
            for edge, table in zip(lowered.edges, problem.edge_table_of, strict=True)
        )
        made: Problem = replace(
            problem,
            node_tables=tuple(self.node_tables),
            edge_tables=tuple(self.edge_tables),
            node_table_of=node_table_of,
            edge_table_of=edge_table_of,
        )
        nodes = tuple(
            node._replace(port=self._of(node)[1]) if node.kind is NodeKind.PARAMETER else node
            for node in lowered.nodes
        )
        edges = tuple(
            edge._replace(source_port=self._of(lowered.nodes[edge.source])[1])
            if lowered.nodes[edge.source].kind is NodeKind.PARAMETER
            else edge
            for edge in lowered.edges
        )
        pricer = _PartsPricer(lowered.pricer, self.once)
        return replace(lowered, problem=made, nodes=nodes, edges=edges, pricer=pricer)

    def _of(self, node: Node) -> tuple[Places, Port]:
        port = node.port
        if port is None:
            raise TypeError(f"{node.name} has no layouts")
        if id(port) not in self.places:
            places = self._places(port)
            own = Port(_states(port, places), np.arange(len(places.at)))
            self.places[id(port)] = places, own, (port,)
        return self.places[id(port)][:2]

    def _places(self, port: Port) -> Places:
        finer = _finer(port, len(self.lowered.setting.mesh.axes), free=self.free)
        rests = np.array([s.forward == s.gradient for s in port.states])
        rows = [
            (at, finer.get(at, at) if level else at, level)
            for at in range(len(port.states))
            for level in _levels(self.zero, whole=bool(self.free or rests[at]), parts=at in finer)
        ]
        table = np.array(rows or [(at, at, 0) for at in range(len(port.states))], dtype=np.intp)
        return Places(table[:, 0], table[:, 1], table[:, 2])

    def _node_table(self, node: Node, table: int) -> int:
        key: Hashable = table
        if node.kind is NodeKind.PARAMETER:
            key = (table, id(node.port))
        number = self._node_numbers.setdefault(key, len(self.node_tables))
        if number == len(self.node_tables):
            old = self.lowered.problem.node_tables[table]
            if node.kind is NodeKind.PARAMETER:
                old = _parameter_table(old, self._of(node)[0])
            self.node_tables.append(old)
        return number

    def _edge_table(self, edge: Edge, table: int) -> int:
        source = self.lowered.nodes[edge.source]
        exchange = self.exchanges.get(edge.tensor)
        key: Hashable = table
        if source.kind is NodeKind.PARAMETER:
            key = (table, edge.tensor if exchange is not None else None)
        number = self._edge_numbers.setdefault(key, len(self.edge_tables))
        if number == len(self.edge_tables):
            old = self.lowered.problem.edge_tables[table]
            if source.kind is NodeKind.PARAMETER:
                old = self._parameter_edge(edge, old, self._of(source)[0], exchange)
            self.edge_tables.append(old)
        return number

    def _parameter_edge(
        self, edge: Edge, old: EdgeTable, places: Places, exchange: Exchange | None
    ) -> EdgeTable:
        times, copies = old.time_s[places.at], [m[places.at] for m in old.memory_bytes]
        if self.free and self.zero in {"0", "1", "2"}:
            own = is_same(edge.source_port, edge.target_port)[places.at][:, edge.target_port.of]
            times = np.where(own, times, UNREACHABLE_S)
        rows = np.flatnonzero(places.levels)
        if len(rows):
            times[rows] = self._in_parts(edge, places, rows)
            second = rows[places.levels[rows] == 2]
            if len(copies) > 1 and len(second):
                copies[1][second] = self._used_bytes(edge)
        if exchange is not None:
            tensor = self.lowered.liveness.graph.tensors[edge.tensor]
            local = port_elements(tensor.dims, edge.source_port, self.lowered.setting.mesh)
            spent_s = exchange(local[places.state_at] * dtype_bytes(tensor.dtype))
            times = times + spent_s[:, None] / self.lowered.setting.once_per
        return EdgeTable(np.minimum(times, UNREACHABLE_S), tuple(copies))

    def _in_parts(self, edge: Edge, places: Places, rows: IndexArray) -> FloatArray:
        """Seconds of a micro-batch at levels 1 and 2, shape (rows, candidates of the target)."""
        port, target = edge.source_port, edge.target_port
        parts = Port(tuple(port.states[i] for i in places.state_at[rows]), np.arange(len(rows)))
        kind = replace(edge.kind, regathered=False)
        whole = self.once.times(kind, parts, target)
        gather = self.once.times(replace(kind, gradient=False), parts, target)
        setting = self.lowered.setting
        count, every = setting.once_per, setting.micro_batches > 1
        second = every & (places.levels[rows] == 2)[:, None]
        spent = np.where(second, whole - gather + gather / count, whole / count)
        own = Port(tuple(port.states[i] for i in places.at[rows]), np.arange(len(rows)))
        reachable = is_same(own, target) & (whole < UNREACHABLE_S)
        return np.where(reachable, spent, UNREACHABLE_S)[:, target.of]

    def _used_bytes(self, edge: Edge) -> FloatArray:
        """Of the gradient of a micro-batch in the layout of use."""
        tensor = self.lowered.liveness.graph.tensors[edge.tensor]
        local = port_elements(tensor.dims, edge.target_port, self.lowered.setting.mesh)
        return np.asarray((local * dtype_bytes(tensor.dtype))[edge.target_port.of])


def _levels(zero: str, *, whole: bool, parts: bool) -> tuple[int, ...]:
    """Levels at which a candidate of a parameter is offered; 0 stands for what it is by itself.

    Args:
        zero: what is asked for.
        whole: it rests in the layout of its readers, or may.
        parts: there is a layout that shares it out over its copies.
    """
    if zero == "auto":
        return (0, 1, 2) if whole and parts else (0,)
    if zero == "3":
        return () if whole and parts else (0,)
    if not whole:
        return ()
    return (int(zero),) if parts else (0,)


def _finer(port: Port, axes: int, *, free: bool) -> dict[int, int]:
    """For states of a parameter the state in which it is shared out over all its copies.

    MindSpore's second layout is the one of its readers; among all layouts of a free target those
    that go on where the first ends have the smallest parts first.
    """
    if not free:
        index = {s.gradient: i for i, s in enumerate(port.states) if s.forward != s.gradient}
        return {
            i: index[s.forward]
            for i, s in enumerate(port.states)
            if s.forward == s.gradient and s.forward in index
        }
    full = [i for i, s in enumerate(port.states) if len(s.forward.split_axes) == axes]
    found = {}
    for i, state in enumerate(port.states):
        own = state.forward.dims
        for j in full:
            other = port.states[j].forward.dims
            if j != i and all(b[: len(a)] == a for a, b in zip(own, other, strict=True)):
                found[i] = j
                break
    return found


def _states(port: Port, places: Places) -> tuple[PortState, ...]:
    rows = zip(places.at, places.state_at, places.levels, strict=True)
    return tuple(
        StateInParts(port.states[a].forward, port.states[a].gradient, port.states[s], int(level))
        if level
        else port.states[a]
        for a, s, level in rows
    )


def _parameter_table(old: NodeTable, places: Places) -> NodeTable:
    """Weight, gradient, master copy and moments each where they rest."""
    weight, gradient, *states = old.memory_bytes
    memory = (
        weight[places.at],
        gradient[places.gradient_at],
        *(held[places.state_at] for held in states),
    )
    axes = None if old.axes is None else old.axes[places.at]
    return NodeTable(old.time_s[places.state_at], memory, axes)


@dataclass(frozen=True, slots=True)
class _PartsPricer(RetoldEdges):
    """Tells the collectives of a parameter with states in parts; all else is as it was."""

    once: EdgePricer

    def transfers(
        self, kind: EdgeKind, source: PortState, target: PortState
    ) -> tuple[Transfer, ...]:
        if not isinstance(source, StateInParts):
            return self.own.transfers(kind, source, target)
        moves = self.once.transfers(replace(kind, regathered=False), source.parts, target)
        scattered = [
            replace(move, once=source.level == 1) for move in moves if move.cause == CAUSE_SYNC
        ]
        gathered = [
            replace(move, once=True, cause=CAUSE_UPDATED)
            for move in moves
            if move.cause == CAUSE_GATHER
        ]
        return (*scattered, *gathered)
